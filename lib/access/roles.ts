/** The roles a person can be given in a workspace, mightiest first. */
export const roles = ['owner', 'admin', 'member', 'billing', 'guest'] as const
export type Role = (typeof roles)[number]

const overview = ['program:read', 'performance:read'] as const
const analysis = [
  'tracking:list',
  'partner:list',
  'commission:list',
  'notice:list',
  'delivery:list',
  'webhook:list',
] as const
const payment = [
  'partner:list',
  'commission:list',
  'notice:list',
  'payout:list',
  'payout:pay',
  'payout-address:read',
] as const
const management = [
  'partner:manage',
  'commission:decide',
  'customer:forget',
  'program:create',
  'program:update',
  'api-key:manage',
  'processor:manage',
  'webhook:manage',
  'member:manage',
] as const
const ownership = ['owner:manage', 'audit:list', 'own-account:connect'] as const

export type Action = (typeof overview | typeof analysis | typeof payment | typeof management | typeof ownership)[number]

/**
 * What each role may do: the one access policy. `billing` pays partners and does not see who visited; `guest` sees only the
 * programs that were opened to them. Where partners are paid to, their e-mail address included, is for those who pay them. Only an owner makes, changes or removes owners, reads the audit log, and
 * connects the deployment's own Stripe account.
 */
export const roleActions: Readonly<Record<Role, readonly Action[]>> = {
  owner: [...overview, ...analysis, ...payment, ...management, ...ownership],
  admin: [...overview, ...analysis, ...payment, ...management],
  member: [...overview, ...analysis],
  billing: [...overview, ...payment],
  guest: [],
}

/** The roles that carry `action`. */
export function rolesWith(action: Action): Role[] {
  return roles.filter((role) => may([role], action))
}

/** True where one of `held` carries `action`. */
export function may(held: readonly Role[], action: Action): boolean {
  return held.some((role) => roleActions[role].includes(action))
}
