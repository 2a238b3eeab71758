/** Encodes form fields as `multipart/form-data` (RFC 7578). The same fields and seed give the same bytes. */
export function multipart(
  fields: readonly (readonly [name: string, value: string])[],
  seed: string,
): { contentType: string; body: string } {
  let boundary = `form-${seed}`;
  while (fields.some(([, value]) => value.includes(boundary))) boundary += '-';
  const parts = fields.map(
    ([name, value]) =>
      `--${boundary}\r\nContent-Disposition: form-data; name="${escaped(name)}"\r\n\r\n${value}\r\n`,
  );
  return {
    contentType: `multipart/form-data; boundary="${boundary}"`,
    body: `${parts.join('')}--${boundary}--\r\n`,
  };
}

function escaped(name: string): string {
  return name.replace(/["\r\n]/g, encodeURIComponent);
}
