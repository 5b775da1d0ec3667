import { createPages, leadToTwoFactor, requireViewer } from '../components/page.ts'

/** The start page: redirects to the first page that fits the person. */
export const pages = createPages()

pages.get('/', requireViewer, (c) => {
  const { programs, partner, invitations, locked } = c.get('viewer')
  const first = programs[0]
  if (first) return c.redirect(`/programs/${first.id}`, 303)
  if (locked.length > 0) return leadToTwoFactor(c)
  if (partner) return c.redirect('/partner', 303)
  return c.redirect(invitations > 0 ? '/partner/invitations' : '/programs/new', 303)
})
