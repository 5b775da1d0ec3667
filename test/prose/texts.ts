import { readFileSync } from 'node:fs'
import { fromMarkdown } from 'mdast-util-from-markdown'
import { gfmTableFromMarkdown } from 'mdast-util-gfm-table'
import { gfmTable } from 'micromark-extension-gfm-table'
import { parseSync } from 'oxc-parser'
import { visit } from 'unist-util-visit'

/** A piece of prose and its first line in the file. */
export interface Text {
  line: number
  text: string
}

/**
 * Reads the prose of a file: paragraphs of documents, comments of code, and sentences on pages, in errors and in tests.
 */
export function textsOf(file: string): Text[] {
  const source = readFileSync(file, 'utf8')
  if (file.endsWith('.md')) return textsOfMarkdown(source)
  if (/\.tsx?$/.test(file)) return textsOfCode(file, source)
  return textsOfLineComments(source, file.endsWith('.sql') ? '--' : '#')
}

function textsOfMarkdown(source: string): Text[] {
  const texts: Text[] = []
  const tree = fromMarkdown(source, { extensions: [gfmTable()], mdastExtensions: [gfmTableFromMarkdown()] })
  visit(tree, (node) => {
    if (node.type !== 'paragraph' && node.type !== 'heading' && node.type !== 'tableCell') return
    const parts: string[] = []
    visit(node, (part) => {
      if (part.type === 'text') parts.push(part.value)
      if (part.type === 'inlineCode') parts.push('Code')
    })
    texts.push({ line: node.position?.start.line ?? 1, text: parts.join('') })
  })
  return texts
}

/** Strings and template parts that look like a sentence: at least three words, the first with a capital letter. */
const isSentence = (text: string) =>
  text.split('\n').length < 6 && /^\p{Lu}[^\s:]*\s+\S+\s+\S/u.test(text.trim()) && !/[{};=]|^[A-Z_]+ /.test(text)

function textsOfCode(file: string, source: string): Text[] {
  const { program, comments } = parseSync(file, source)
  const lineAt = lineFinder(source)
  const texts: Text[] = []
  let lineComment: (Text & { end: number }) | undefined
  for (const { type, value, start, end } of comments) {
    if (/^\s*(oxlint|@ts-|#region|@vitest)/.test(value)) continue
    const line = lineAt(start)
    if (type === 'Line' && lineComment && line === lineAt(lineComment.end) + 1) {
      lineComment.text += ` ${value.trim()}`
      lineComment.end = end
      continue
    }
    const text = { line, text: withoutMarks(value), end }
    texts.push(text)
    lineComment = type === 'Line' ? text : undefined
  }
  for (const { start, title } of titlesOf(source)) texts.push({ line: lineAt(start), text: collapsed(title) })
  walk(program, (node) => {
    if (node.type === 'JSXText' && node.value.trim().includes(' '))
      texts.push({ line: lineAt(node.start), text: collapsed(node.value) })
    if (node.type === 'Literal' && isSentence(node.value))
      texts.push({ line: lineAt(node.start), text: collapsed(node.value) })
    if (node.type === 'TemplateElement' && isSentence(node.value))
      texts.push({ line: lineAt(node.start), text: collapsed(node.value) })
  })
  return texts
}

/**
 * Finds the titles of tests: `test('…')`, `describe.each(rows)('…')` and similar calls. An inserted value counts as one
 * word.
 */
function* titlesOf(source: string) {
  const calls = /^[ \t]*(?:test|describe|it)(?:\.\w+)*(?:\([^\n]*\))?\(\s*(['"`])(.+?)\1,?/gm
  for (const { index, 2: title = '' } of source.matchAll(calls))
    yield {
      start: index,
      title: title.replaceAll(/\$\{[^}]*\}|%[sdij]|\$\w+(?:\.\w+)*/g, 'Value').replaceAll(/`[^`]*`/g, 'Code'),
    }
}

interface TextNode {
  type: string
  value: string
  start: number
}

/** Calls `found` for each node in a syntax tree that contains text. */
function walk(node: unknown, found: (node: TextNode) => void): void {
  if (Array.isArray(node)) for (const child of node) walk(child, found)
  if (typeof node !== 'object' || node === null || Array.isArray(node)) return
  if ('type' in node && typeof node.type === 'string' && 'start' in node && typeof node.start === 'number') {
    const value = 'value' in node ? textOfValue(node.value) : undefined
    if (value !== undefined) found({ type: node.type, value, start: node.start })
  }
  for (const child of Object.values(node)) walk(child, found)
}

function textOfValue(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  if (typeof value === 'object' && value !== null && 'cooked' in value && typeof value.cooked === 'string')
    return value.cooked
  return undefined
}

function textsOfLineComments(source: string, mark: '--' | '#'): Text[] {
  const texts: Text[] = []
  let last: (Text & { lastLine: number }) | undefined
  const pattern = mark === '--' ? /^\s*--\s?(.*)$/ : /^\s*#\s?(.*)$/
  source.split('\n').forEach((content, index) => {
    const [, comment] = pattern.exec(content) ?? []
    if (comment === undefined) {
      last = undefined
    } else if (last) {
      last.text += ` ${comment.trim()}`
    } else {
      last = { line: index + 1, text: comment.trim(), lastLine: index }
      texts.push(last)
    }
  })
  return texts
}

/** Code in backticks counts as one word. A list item or a tag starts a new sentence. */
const withoutMarks = (comment: string) =>
  collapsed(
    comment
      .replaceAll(/^\s*\* {5,}.*$/gm, '')
      .replaceAll(/^\s*\*+ ?/gm, '')
      .replaceAll(/`[^`]*`/g, 'Code')
      .replaceAll(/^\s*(@\w+|- )/gm, '. It: ')
      .replaceAll(/\{@link [^}]*\}/g, 'Code'),
  )

const collapsed = (text: string) => text.replaceAll(/\s+/g, ' ').trim()

function lineFinder(source: string): (offset: number) => number {
  const starts = [0, ...Array.from(source.matchAll(/\n/g), ({ index }) => index + 1)]
  return (offset) => {
    const after = starts.findIndex((start) => start > offset)
    return after === -1 ? starts.length : after
  }
}
