/** Returns the mailbox of an address, as `mailbox_of` in the database does. Removes a plus tag and, for Gmail, the dots. */
export function mailboxOf(email: string): string {
  const [name = '', domain = ''] = email.toLowerCase().split('@')
  const local = name.replace(/^(.[^+]*)\+.*$/, '$1')
  return ['gmail.com', 'googlemail.com'].includes(domain)
    ? `${local.replaceAll('.', '')}@gmail.com`
    : `${local}@${domain}`
}
