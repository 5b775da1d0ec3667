import { globSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { prepareRelease } from '../lib/commands/release.ts'

const texts = (changelog: string) => ({
  'CHANGELOG.md': changelog,
  'package.json': '{"name":"service","version":"0.2.0","private":true}',
  'tracker/package.json': '{"version":"0.2.0","exports":{}}',
  'package-lock.json':
    '{"version":"0.2.0","packages":{"":{"version":"0.2.0"},"tracker":{"version":"0.1.0"},"a":{"version":"1.0.0"}}}',
})

test('a release sets one version everywhere, dates its section and takes its notes from there', () => {
  const { version, notes, files } = prepareRelease(
    texts('# Changes\n\n## 0.3.0, unreleased\n\n- New.\n\n## 0.2.0, 2026-01-01\n\n- Old.\n'),
    '2026-11-23',
  )
  expect([version, notes]).toEqual(['0.3.0', '- New.'])
  expect(files['CHANGELOG.md']).toBe('# Changes\n\n## 0.3.0, 2026-11-23\n\n- New.\n\n## 0.2.0, 2026-01-01\n\n- Old.\n')
  const parsed = ['package.json', 'tracker/package.json', 'package-lock.json'].map((file) =>
    JSON.parse(files[file] ?? ''),
  )
  expect(parsed).toEqual([
    { name: 'service', version: '0.3.0', private: true },
    { version: '0.3.0', exports: {} },
    {
      version: '0.3.0',
      packages: { '': { version: '0.3.0' }, tracker: { version: '0.3.0' }, a: { version: '1.0.0' } },
    },
  ])
})

test.each([
  [
    'whose first section is released',
    '# Changes\n\n## 0.2.0, 2026-01-01\n\n- Old.\n\n## 0.3.0, unreleased\n\n- New.\n',
  ],
  ['without sections', '# Changes\n'],
  ['whose section is empty', '# Changes\n\n## 0.3.0, unreleased\n\n## 0.2.0, 2026-01-01\n\n- Old.\n'],
])('a changelog %s releases nothing', (_, changelog) => {
  expect(() => prepareRelease(texts(changelog), '2026-11-23')).toThrow('CHANGELOG.md')
})

test('workflows pin every action by its commit, and grant only what a job needs', () => {
  for (const file of globSync('.github/workflows/*.yml')) {
    const text = readFileSync(file, 'utf8')
    for (const [, action] of text.matchAll(/uses: (.+)/g))
      expect(action, file).toMatch(/^[\w-]+(\/[\w-]+)+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/)
    expect(text, file).toContain('\npermissions:\n  contents: read\n')
  }
})
