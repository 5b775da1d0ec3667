/**
 * A program's test link: a visit by it is a test through to the sale, and counts for nothing. Its code says the program, so it is there as soon as the
 * program is, and no partner's. So does the click id that it gives, which is none of a customer's.
 */
const codePattern = /^svc-test-([1-9]\d{0,14})$/i
const clickIdPattern = /^cust_\d{13}_\d{20}0([1-9]\d{0,14})$/

/** How long a browser keeps a test click's id, and a sale is a test by the lead before it. */
export const testDays = 1

/** The partner code of a program's test link. */
export const testCode = (programId: number): string => `svc-test-${programId}`

/** The program whose test link has this code; undefined where it is another link's. */
export const programOfTestCode = (code: string): number | undefined => numberIn(codePattern, code)

/** The program whose test link gave this click id; undefined for any other. `newClickIdPrefix` is its beginning. */
export const programOfTestClick = (clickId: string): number | undefined => numberIn(clickIdPattern, clickId)

export const testClickId = (prefix: string, programId: number): string => `${prefix}0${programId}`

export function testClickIdOrNull(clickId: string | null | undefined): string | null {
  return clickId && programOfTestClick(clickId) !== undefined ? clickId : null
}

/** Whether a lead or a sale is a test: it says so itself, or comes of a click by a test link. */
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
