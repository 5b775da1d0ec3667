/**
 * `npm run pictures` takes the screenshots of README.md from the demo data of the running local stack: the overview and a partner's page,
 * light and dark. It writes them to `.github/`. Each must stay below 150 KB.
 */
import { statSync } from 'node:fs'
import { readOptions } from '../../lib/commands/command.ts'
import { readDemo } from '../../lib/local/state.ts'
import { readRunningStack } from '../../lib/commands/running-stack.ts'
import { launchChromium } from '../support/chromium.ts'

readOptions('npm run pictures    takes the screenshots of README.md from the demo on the running local stack', {})

const maxBytes = 150_000
const { baseUrl } = readRunningStack()
const { email, password, programId } = await readDemo(() => {
  throw new Error('The stack has no demo data. Start it with a new database by npm start.')
})
const pictures = [
  ['overview', `/programs/${programId}?period=30d`],
  ['partner', `/programs/${programId}/partners/1`],
] as const

const browser = await launchChromium()
try {
  const page = await browser.newPage({ baseURL: baseUrl, viewport: { width: 1280, height: 860 } })
  await page.goto('/sign-in')
  await page.getByLabel('E-mail').fill(email)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('navigation', { name: 'Main' }).waitFor()
  for (const [name, path] of pictures) {
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme })
      await page.goto(path)
      const file = `.github/${name}-${colorScheme}.png`
      await page.screenshot({ path: file })
      const { size } = statSync(file)
      if (size > maxBytes) throw new Error(`${file} has ${size} bytes. It may have ${maxBytes} at most.`)
      console.log(`${file}: ${size} bytes`)
    }
  }
} finally {
  await browser.close()
}
