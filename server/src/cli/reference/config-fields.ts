/** A field of a config, for people. */
export type ConfigField = { name: string; type: string; required: boolean; help: string };

/** The parts of JSON Schema that configs are written in. */
type Schema = {
  type?: string;
  format?: string;
  description?: string;
  enum?: readonly unknown[];
  anyOf?: readonly Schema[];
  required?: readonly string[];
  properties?: Readonly<Record<string, Schema>>;
};

/** Every field of a config, those of objects in it by their path: `from.email`. */
export function configFields(config: object, path = '', isRequired = true): ConfigField[] {
  const { properties = {}, required = [] } = config as Schema;
  return Object.entries(properties).flatMap(([own, schema]): ConfigField[] => {
    const name = path === '' ? own : `${path}.${own}`;
    const inside = [schema, ...(schema.anyOf ?? [])].find((one) => one.properties !== undefined);
    const field = {
      name,
      type: typeOf(schema),
      required: isRequired && required.includes(own),
      help: schema.description ?? '',
    };
    // Of an optional object its fields are required only where it is there.
    return [field, ...(inside === undefined ? [] : configFields(inside, name, true))];
  });
}

function typeOf(schema: Schema): string {
  if (schema.enum !== undefined) return schema.enum.map((word) => `\`${word}\``).join(', ');
  if (schema.anyOf !== undefined) return schema.anyOf.map(typeOf).join(' or ');
  if (schema.format === 'password') return 'string, secret';
  const name = schema.type ?? 'any';
  return Array.isArray(name) ? name.join(' or ') : name;
}
