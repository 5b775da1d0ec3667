import { createPages, leadToTwoFactor, requireViewer } from '../parts/page.ts'

/** The way in: where somebody goes who opens the dashboard. */
export const startPages = createPages()

startPages.get('/', requireViewer, (c) => {
  const { programs, partner, locked } = c.get('viewer')
  const first = programs[0]
  if (first) return c.redirect(`/programs/${first.id}`, 303)
  if (locked.length > 0) return leadToTwoFactor(c)
  return c.redirect(partner ? '/partner' : '/programs/new', 303)
})
