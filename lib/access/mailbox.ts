/** Returns the mailbox of an address like `mailbox_of` in the database: without a plus tag, and at Gmail without dots. */
export function mailboxOf(email: string): string {
  const [name = '', domain = ''] = email.toLowerCase().split('@')
  const local = name.replace(/^(.[^+]*)\+.*$/, '$1')
  return ['gmail.com', 'googlemail.com'].includes(domain)
    ? `${local.replaceAll('.', '')}@gmail.com`
    : `${local}@${domain}`
}
