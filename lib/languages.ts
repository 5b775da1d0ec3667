/** The languages of the pages and mails for partners. The dashboard of programs is in English. */
export const languages = {
  en: { name: 'English', locale: 'en-US', dir: 'ltr' },
  de: { name: 'Deutsch', locale: 'de-DE', dir: 'ltr' },
  fr: { name: 'Français', locale: 'fr-FR', dir: 'ltr' },
  es: { name: 'Español', locale: 'es-ES', dir: 'ltr' },
  pt: { name: 'Português', locale: 'pt-BR', dir: 'ltr' },
} as const satisfies Record<string, { name: string; locale: string; dir: 'ltr' | 'rtl' }>

export type Language = keyof typeof languages

/** The languages in the order in which forms list them. The database allows the same languages. */
export const languageCodes = ['en', 'de', 'fr', 'es', 'pt'] as const satisfies Language[]

/** The languages as the options of a form, each with its own name. */
export const languageOptions = languageCodes.map((code) => [code, languages[code].name] as const)

/** Widens the spaces between the digits of French numbers. Inter and some mail programs have no narrow no-break space. */
export const widenSpaces = (text: string) => text.replaceAll('\u202F', '\u00A0')

const isLanguage = (code: string): code is Language => Object.hasOwn(languages, code)

/** Returns the first known language among the choices, or else from the browser's `Accept-Language`, or else English. */
export function chooseLanguage(choices: (string | null | undefined)[], accepted = ''): Language {
  const chosen = choices.find((one) => one !== null && one !== undefined && isLanguage(one))
  return [chosen ?? '', ...acceptedLanguages(accepted)].find(isLanguage) ?? 'en'
}

/** The languages of an `Accept-Language` header without their regions, best first: `pt-BR;q=0.8, de` is `de`, `pt`. */
function acceptedLanguages(header: string): string[] {
  return header
    .slice(0, 200)
    .split(',')
    .map((part) => {
      const [tag = '', weight] = part.trim().toLowerCase().split(';q=')
      return { code: tag.split('-')[0] ?? '', weight: weight === undefined ? 1 : Number(weight) }
    })
    .filter(({ weight }) => weight > 0)
    .toSorted((a, b) => b.weight - a.weight)
    .map(({ code }) => code)
}
