/**
 * A program's test link turns a visit into a test, up to the sale, and no figure counts it. The link's code contains the program's id, so
 * the link exists as soon as the program does. It doesn't belong to a partner, and its click id doesn't belong to a customer.
 */
const codePattern = /^svc-test-([1-9]\d{0,14})$/i
const clickIdPattern = /^cust_\d{13}_\d{20}0([1-9]\d{0,14})$/

/**
 * The number of days for which a browser keeps a test click id. After a test lead, the customer's sales are tests for the same number of
 * days.
 */
export const testDays = 1

/** Returns the partner code of a program's test link. */
export const testCode = (programId: number): string => `svc-test-${programId}`

/** Returns the program whose test link has this code, or undefined for any other link. */
export const programOfTestCode = (code: string): number | undefined => numberIn(codePattern, code)

/** Returns the program whose test link issued this click id, which begins with `newClickIdPrefix`. Returns undefined for any other id. */
export const programOfTestClick = (clickId: string): number | undefined => numberIn(clickIdPattern, clickId)

export const testClickId = (prefix: string, programId: number): string => `${prefix}0${programId}`

export function testClickIdOrNull(clickId: string | null | undefined): string | null {
  return clickId && programOfTestClick(clickId) !== undefined ? clickId : null
}

/** Returns whether a lead or a sale is a test, because the call says so or its click id comes from a test link. */
export function isTestEvent(
  body: { additional_data?: { test_mode?: boolean | null | undefined } | null | undefined },
  clickId: string | null | undefined,
): boolean {
  return body.additional_data?.test_mode === true || testClickIdOrNull(clickId) !== null
}

function numberIn(pattern: RegExp, text: string): number | undefined {
  const digits = pattern.exec(text)?.[1]
  return digits === undefined ? undefined : Number(digits)
}
