/**
 * Renders typed text. An empty line starts a paragraph, and lines that begin with `- ` are a list. Nothing else has a special meaning, so
 * the text cannot contain markup, links or images.
 */
export function PlainText({ text }: { text: string }) {
  return (
    <div class="stack tight plain">
      {text.split(/\n[ \t]*\n+/).map((paragraph) => {
        const lines = paragraph.split('\n').filter((line) => line.trim() !== '')
        if (lines.length > 0 && lines.every((line) => line.startsWith('- '))) {
          return (
            <ul>
              {lines.map((line) => (
                <li dir="auto">{line.slice(2)}</li>
              ))}
            </ul>
          )
        }
        return (
          <p dir="auto">
            {lines.map((line, index) => (
              <>
                {index > 0 && <br />}
                {line}
              </>
            ))}
          </p>
        )
      })}
    </div>
  )
}

/** Questions with their answers. */
export function Answers({ answers }: { answers: { question: string; answer: string }[] }) {
  return (
    <dl class="stack">
      {answers.map(({ question, answer }) => (
        <div class="stack tight">
          <dt class="muted small" dir="auto">
            {question}
          </dt>
          <dd>
            <PlainText text={answer} />
          </dd>
        </div>
      ))}
    </dl>
  )
}
