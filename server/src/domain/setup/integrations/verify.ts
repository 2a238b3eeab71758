import { ClientError } from '../../../errors.ts';
import { type Integration, secretsOf, type VerifyDeps } from '../../../providers/provider.ts';
import { withoutSecrets } from '../../../providers/shared/vendor-text.ts';

/** Checks a config with its provider. Throws `verification_failed` with all findings, without secrets. */
export async function verifyIntegration(
  { egress, clock, transport }: VerifyDeps,
  integration: Integration,
  config: Record<string, unknown>,
): Promise<void> {
  const findings = (await integration.verify?.(config, { egress, clock, transport })) ?? [];
  if (findings.length === 0) return;
  const secrets = secretsOf(integration.config, config);
  throw new ClientError(
    'verification_failed',
    findings.map(({ field, problem }) => `Param '${field}' ${withoutSecrets(problem, secrets)}`),
  );
}
