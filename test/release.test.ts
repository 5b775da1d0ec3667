import { globSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { prepareRelease } from '../lib/commands/release.ts'

const json = (value: object) => `${JSON.stringify(value, null, 2)}\n`
const filesOf = (version: string) => ({
  'package.json': json({ name: 'service', version, private: true }),
  'tracker/package.json': json({ name: 'package', version, exports: {} }),
  'package-lock.json': json({
    name: 'service',
    version,
    lockfileVersion: 3,
    packages: {
      '': { name: 'service', version, workspaces: ['tracker'] },
      'node_modules/a': { version: '1.0.0' },
      tracker: { name: 'package', version, devDependencies: {} },
    },
  }),
})
const texts = (changelog: string) => ({ 'CHANGELOG.md': changelog, ...filesOf('0.2.0') })

test('a release sets one version everywhere, dates its section and takes its notes from there', () => {
  const { version, notes, files } = prepareRelease(
    texts('# Changes\n\n## 0.3.0, unreleased\n\n- New.\n\n## 0.2.0, 2026-01-01\n\n- Old.\n'),
    '2026-11-23',
  )
  expect([version, notes]).toEqual(['0.3.0', '- New.'])
  expect(files).toEqual({
    'CHANGELOG.md': '# Changes\n\n## 0.3.0, 2026-11-23\n\n- New.\n\n## 0.2.0, 2026-01-01\n\n- Old.\n',
    ...filesOf('0.3.0'),
  })
})

test.each([
  [
    'whose first section is released',
    '# Changes\n\n## 0.2.0, 2026-01-01\n\n- Old.\n\n## 0.3.0, unreleased\n\n- New.\n',
  ],
  ['without sections', '# Changes\n'],
  ['whose section is empty', '# Changes\n\n## 0.3.0, unreleased\n\n## 0.2.0, 2026-01-01\n\n- Old.\n'],
])("a changelog %s can't be released", (_, changelog) => {
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
