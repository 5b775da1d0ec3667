import { createPages, requireViewer } from '../parts/page.ts'

/** The way in: where somebody goes who opens the dashboard. */
export const startPages = createPages()

startPages.get('/', requireViewer, (c) => {
  const { programs, partner } = c.get('viewer')
  const first = programs[0]
  if (first) return c.redirect(`/programs/${first.id}`, 303)
  return c.redirect(partner ? '/partner' : '/programs/new', 303)
})
