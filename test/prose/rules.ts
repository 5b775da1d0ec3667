import retextEnglish from 'retext-english'
import retextIndefiniteArticle from 'retext-indefinite-article'
import retextRepeatedWords from 'retext-repeated-words'
import { toString } from 'nlcst-to-string'
import { type Plugin, unified } from 'unified'
import { visit } from 'unist-util-visit'
import type { Root } from 'nlcst'

/** The maximum number of words in a sentence. */
const longestSentence = 32

/**
 * Words that the project does not use, with their replacements. Names that the interface fixes are written in
 * backticks.
 */
const glossary: [pattern: RegExp, use: string][] = [
  [/\bwithdrawals?\b/i, 'payout'],
  [
    /\b(make|makes|made|making) (a|an|the|one|new|another) (program|account|key|link|partner|run|payout|row|sale|customer|commission|workspace|code|group|entry|file|database|queue|endpoint)\b/i,
    'create',
  ],
  [/\b(retired|turned off|turn off|take[ns]? back) (an? |the )?(api )?(key|code|invitation)/i, 'revoke'],
  [/\b(turn|turns|turned|switch|switched|switches) (it |them )?(on|off)\b/i, 'enable or disable'],
  [/\b(first|next|each|every|one|more|\d) tr(y|ies)\b|\btries (of|left|so far)\b/i, 'attempt'],
  [/\btold\b|\btell(s|ing)? (the|a|an|it|them|him|her|whom|who|nobody|of|both)\b/i, 'notify, report or say'],
  [/\bnotices?\b/i, 'notification'],
  [/\bleft out\b|\bleaves? out\b/i, 'excluded, with an exclusion reason'],
  [/\bthe time before\b|\blast time before\b/i, 'previous period'],
  [/\bmend(s|ed|ing)?\b/i, 'fix'],
  [/\bpayment service\b/i, 'processor'],
  [/\bsales? of nobody\b|\bnobody's sales?\b/i, 'unattributed sale'],
  [/\bstands? (there|here|in)\b|\bstanding\b|\bstood there\b/i, 'existing, or is'],
]

/** Turns of phrase that a native speaker would not say. */
const phrases: [pattern: RegExp, advice: string][] = [
  [
    /(?<!\b(page|place|file|line|point|country|step|folder|address|column|table|row|field|world|know|knows|see|say|says|show|shows|find|from|to|and|exactly|wherever))\bwhere\b(?! to\b)(?!.*\?$)/i,
    'Use "if" or "when" for a condition.',
  ],
  [
    /^(what|who|whom|whose) (?!to |you |we |does |do |is |are |can |happens )(?!.*\?$)/i,
    'Name the thing: no relative clause as a subject.',
  ],
  [
    /\bwhat (is|was|are|were|comes|came|stands|stood|has|had) (?!wrong|new|it|its|the\b|left\b|going\b)(?!.*\?$)/i,
    'Name the thing: no relative clause as an object.',
  ],
  [/\b(is|are|was|were) to (be|have)\b/i, 'Use the active present.'],
  [/\bthat there (is|are)\b/i, 'Drop the empty clause.'],
  [/\bas (it|they) (is|are|was|were) (there|given|read|written) (in|by)\b/i, 'Put the verb after its subject.'],
]

interface Message {
  reason: string
  sentence: string
}

const ownRules: Plugin<[], Root> = () => (tree, file) => {
  visit(tree, 'SentenceNode', (node) => {
    const sentence = toString(node)
    const words = node.children.filter(({ type }) => type === 'WordNode').length
    if (words > longestSentence)
      file.message(`${words} words; ${longestSentence} at most.`, { place: node.position, source: sentence })
    for (const [pattern, use] of glossary) {
      const [found] = pattern.exec(sentence) ?? []
      if (found) file.message(`"${found}": use ${use}.`, { place: node.position, source: sentence })
    }
    for (const [pattern, advice] of phrases) {
      const [found] = pattern.exec(sentence) ?? []
      if (found) file.message(`"${found.trim()}": ${advice}`, { place: node.position, source: sentence })
    }
  })
}

const prose = unified()
  .use(retextEnglish)
  .use(ownRules)
  .use(retextRepeatedWords)
  .use(retextIndefiniteArticle)
  .use(function () {
    this.compiler = () => ''
  })

/** Finds every sentence of a text that breaks a rule. */
export async function check(text: string): Promise<Message[]> {
  const file = await prose.process(text)
  // The code can be any name, so the right article is unknown.
  return file.messages
    .filter(({ reason }) => !reason.includes('`Code`'))
    .map(({ reason, source }) => ({ reason, sentence: source?.includes(' ') ? source : text }))
}
