/** An error with a message for the operator: the problem and its remedy. Commands show it without a stack trace. */
export class OperatorError extends Error {}
