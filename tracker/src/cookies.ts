/** A program's cookie, by the program's name on the page, and the copy that scripts can't read. See `createTrackerProxy`. */
export const cookieOf = (name = 'svc') => `${name}_click_id`
export const keptOf = (name?: string) => `${cookieOf(name)}_kept`

/** Finds the click id of this cookie in the value of the `Cookie` header, or undefined. */
export const clickIdOf = (cookies: string, cookie: string) => cookies.match(`(?:^|; *)${cookie}=(cust_\\d+_\\d+)`)?.[1]
