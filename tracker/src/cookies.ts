/** The cookie with a copy of the click id that scripts cannot read; see `createTrackerProxy`. */
export const keptName = 'svc_click_id_kept'

/** The click id in a `Cookie` header, or undefined. */
export const clickIdOf = (cookies: string, name = 'svc_click_id') =>
  cookies.match(`(?:^|; *)${name}=(cust_\\d+_\\d+)`)?.[1]
