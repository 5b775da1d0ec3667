/** The roles in a workspace, most powerful first. */
export const roles = ['owner', 'admin', 'member', 'billing', 'guest'] as const
export type Role = (typeof roles)[number]

const overview = ['program:read', 'performance:read'] as const
const analysis = [
  'tracking:list',
  'partner:list',
  'commission:list',
  'notification:list',
  'delivery:list',
  'webhook:list',
] as const
const payment = [
  'partner:list',
  'commission:list',
  'notification:list',
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
 * The actions of each role. This table is the only access policy. `billing` pays partners and does not see visitors. `guest` sees only
 * programs that were opened to them. Only roles that pay partners see payout addresses and partners' e-mail addresses. Only owners manage
 * owners, read the audit log, and connect the deployment's own Stripe account.
 */
export const roleActions: Readonly<Record<Role, readonly Action[]>> = {
  owner: [...overview, ...analysis, ...payment, ...management, ...ownership],
  admin: [...overview, ...analysis, ...payment, ...management],
  member: [...overview, ...analysis],
  billing: [...overview, ...payment],
  guest: [],
}

/** Returns the roles that allow `action`. */
export function rolesWith(action: Action): Role[] {
  return roles.filter((role) => may([role], action))
}

/** Returns true if one of the roles in `held` allows `action`. */
export function may(held: readonly Role[], action: Action): boolean {
  return held.some((role) => roleActions[role].includes(action))
}
