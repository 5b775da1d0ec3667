import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  root: fileURLToPath(new URL('../', import.meta.url)),
  test: {
    include: ['test/**/*.test.{ts,tsx}'],
    globalSetup: ['test/support/global-setup.ts'],
    // A file has a database, an endpoint and a workerd of its own; more than two at once only wait for each other on two cores.
    maxWorkers: 2,
    testTimeout: 30_000,
    // Starting a stack takes seconds, and minutes where other work has the cores.
    hookTimeout: 180_000,
  },
})
