import { pages } from '../../tracker/dist/served/docs.js'

type Page = (typeof pages)[number]

/** A section that a search found. */
export interface Found {
  page: Page
  section: Page['sections'][number]
  /** The text around the first match. */
  excerpt: string
}

const most = 20

/** Returns the sections that contain every word of a query. Matches in titles come first. */
export function search(query: string): Found[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean).slice(0, 10)
  if (words.length === 0) return []
  return pages
    .flatMap((page) => page.sections.map((section) => ({ page, section })))
    .map(({ page, section }) => {
      const titles = `${page.title} ${section.title}`.toLowerCase()
      const text = section.text.toLowerCase()
      const weight = words.filter((word) => titles.includes(word)).length
      const isFound = words.every((word) => titles.includes(word) || text.includes(word))
      return { page, section, excerpt: excerptOf(section.text, words), weight: isFound ? weight : -1 }
    })
    .filter(({ weight }) => weight >= 0)
    .toSorted((a, b) => b.weight - a.weight)
    .slice(0, most)
}

function excerptOf(text: string, words: string[]): string {
  const places = words.map((word) => text.toLowerCase().indexOf(word)).filter((place) => place >= 0)
  const start = Math.max(0, Math.min(...places, text.length) - 80)
  const from = start === 0 ? 0 : text.indexOf(' ', start) + 1
  const excerpt = text.slice(from, from + 240).trim()
  return `${from > 0 ? '… ' : ''}${excerpt}${from + 240 < text.length ? ' …' : ''}`
}
