/** An error whose message tells the operator what went wrong and what to do. It is shown without a stack trace. */
export class OperatorError extends Error {}
