import type { Action } from '../../../lib/access/roles.ts'

/** The tabs of the settings. People see a tab if they have one of its permissions. */
export const settingsTabs = [
  { name: 'program', title: 'Program', actions: ['program:update'] },
  { name: 'brand', title: 'Brand', actions: ['program:update'] },
  { name: 'tracking', title: 'Tracking', actions: ['program:read'] },
  { name: 'embed', title: 'Embedded portal', actions: ['program:update'] },
  { name: 'keys', title: 'API keys', actions: ['api-key:manage'] },
  { name: 'payments', title: 'Payment processors', actions: ['processor:manage'] },
  { name: 'people', title: 'Members and customers', actions: ['member:manage', 'customer:forget'] },
] as const satisfies { name: string; title: string; actions: Action[] }[]
export type SettingsTab = (typeof settingsTabs)[number]['name']

/** Returns the address of a tab. */
export const settingsTab = (programId: number, tab: SettingsTab) => `/programs/${programId}/settings?tab=${tab}`
