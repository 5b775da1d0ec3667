/** What a process that a test starts has of this one's environment: where programs are, and what Node has compiled of them before. */
export const bareEnvironment: { PATH: string; NODE_COMPILE_CACHE: string } = {
  PATH: process.env['PATH'] ?? '',
  NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? '',
}
