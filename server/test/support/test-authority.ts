import { readFileSync } from 'node:fs';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';

const testAuthority = readFileSync(new URL('tls/ca.crt', import.meta.url), 'utf8');
const usualAuthorities = getCACertificates('default');

/** Trusts the certificates of the stand-ins until `distrustTestAuthority`, in the whole process. */
export function trustTestAuthority(): void {
  setDefaultCACertificates([...usualAuthorities, testAuthority]);
}

/** Trusts only the usual authorities. Every file that trusts others calls it at its end. */
export function distrustTestAuthority(): void {
  setDefaultCACertificates(usualAuthorities);
}
