/** A field of a config, for its reference page. */
export type ConfigField = { name: string; type: string; required: boolean; help: string };

/** The parts of JSON Schema that configs use. */
type Schema = {
  type?: string;
  format?: string;
  description?: string;
  enum?: readonly unknown[];
  anyOf?: readonly Schema[];
  required?: readonly string[];
  properties?: Readonly<Record<string, Schema>>;
};

/** All fields of a config, including those of nested objects: `from.email`. */
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
    // The fields of an optional object are required if the object is present.
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
