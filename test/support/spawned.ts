/**
 * The part of this process's environment that a test's child process gets: the program paths and Node's compile cache.
 */
export const bareEnvironment: { PATH: string; NODE_COMPILE_CACHE: string } = {
  PATH: process.env['PATH'] ?? '',
  NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? '',
}
