/**
 * All kinds of mail to other people that a person can trigger, with their limits per day. Recipients are mailboxes, so plus tags and
 * Gmail's dots don't make another recipient.
 */
export const mailBounds = {
  /**
   * Invitations to a workspace or a program, and confirmations of applications: from one workspace, and from one account across all its
   * workspaces. These mails require an owner with a confirmed address. A day is a UTC day. Invitations in bulk wait for the next day.
   */
  workspace: { perRecipient: 3, perWorkspace: 100 },
  /**
   * Confirmations of applications have three limits. The first counts the mails to a recipient from all programs. The second counts the
   * mails of a workspace's join page or API. The third counts the mails that a network (IPv4 /24, IPv6 /48) causes through that page. The
   * page and the API have separate budgets that leave some mails for invitations. Above its budget, the page asks browsers for a proof of
   * work and accepts `perProvenSource` in all, which don't count toward the workspace.
   */
  application: { perRecipient: 10, perSource: 40, perNetwork: 2, perProvenSource: 400 },
  /** Links for a new password. Here and below, a day begins with the first mail. */
  reset: { perRecipient: 20 },
  /** New confirmation links for an account. */
  verification: { perRecipient: 5 },
  /** Confirmations of a new account, or mails that say that one already exists. */
  'sign-up': { perRecipient: 5 },
  /** Confirmations of a new address. The old address gets the same number of mails if its owner has confirmed it. */
  change: { perRecipient: 5 },
  /** The three kinds above together, because anybody can enter a stranger's address there. */
  unconfirmed: { perNetwork: 200 },
  /** Decisions on an application, whose recipients have already confirmed it. An undo allows a second decision. */
  decision: { perApplication: 2 },
  /**
   * Changed payout addresses. A change notifies the account and up to `perChange` previous addresses, which nobody has confirmed. After
   * `perAccount` changes, the account keeps its address until the next day.
   */
  payoutAddress: { perAccount: 5, perChange: 5, perRecipient: 5 },
  /**
   * Messages to partners who have an account, per day. Each message is a notification, so the limit for immediate notifications applies
   * too.
   */
  message: { perProgram: 5 },
  /**
   * Payouts to partners without an account, whose addresses the program typed. A mail above the limit of its workspace waits for the next
   * day, and one above the limit of its recipient is not sent. These mails require an owner with a confirmed address, and contain a link
   * that stops them.
   */
  payee: { perRecipient: 3, perWorkspace: 1000 },
  /**
   * Immediate notifications. Further notifications on the same UTC day go into the daily mail. Recipients have an account and can disable
   * them.
   */
  notification: { perRecipient: 30 },
} as const

export const tooManyMails = 'This address has received the maximum number of e-mails for today. Try again tomorrow.'
export const tooManyMailsOfNetwork =
  'Your network has caused the maximum number of e-mails to new addresses for today. Try again tomorrow.'

/** The limits for `claim_payee_mails` in the database. */
export const payeeBounds = JSON.stringify({
  per_recipient: mailBounds.payee.perRecipient,
  per_workspace: mailBounds.payee.perWorkspace,
})

const countedBounds = {
  per_recipient: mailBounds.workspace.perRecipient,
  per_workspace: mailBounds.workspace.perWorkspace,
  applications_per_recipient: mailBounds.application.perRecipient,
  per_source: mailBounds.application.perSource,
  per_network: mailBounds.application.perNetwork,
}

/** The limits for `count_mail` in the database. */
export const workspaceBounds = JSON.stringify(countedBounds)
/** The limits for an application with a proof of work. Without `per_workspace`, it leaves the workspace its other mails. */
export const provenBounds = JSON.stringify({
  ...countedBounds,
  per_workspace: undefined,
  per_source: mailBounds.application.perProvenSource,
})
