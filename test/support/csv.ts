/** Parses RFC 4180 text with a header into rows by column. */
export function parseCsv(text: string): Record<string, string | undefined>[] {
  const [header = [], ...rows] = text
    .split('\r\n')
    .slice(0, -1)
    .map((line) =>
      Array.from(line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g), ([, quoted, plain]) =>
        quoted === undefined ? (plain ?? '') : quoted.replaceAll('""', '"'),
      ),
    )
  return rows.map((row) => Object.fromEntries(header.map((name, at) => [name, row[at]])))
}
