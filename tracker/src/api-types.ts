// Written by test/client-types.test.ts from what the API takes and answers.

/** What each call of the program API takes and answers. */
export interface ApiOperations {
  /** Add a partner. */
  createPartner: {
    query: undefined
    body: {
      /** What the program calls them: 1 to 80 characters. */
      name: string
      /** Where an invitation goes, and the money where they name no other address. */
      email?: string | null | undefined
      /** Stands in their link as `aff`: 1 to 64 letters, digits and `. _ @ -`, unique over all programs. Absent: one is made up. */
      code?: string | undefined
      /** Your own id, unique in the program. */
      external_id?: string | null | undefined
      /** The group by whose rules they are paid; null for none. `not_found` where the program has none of this id. */
      group_id?: number | null | undefined
      /** Texts of your own by names of your own: 20 at most, of 500 characters, with names of 40. */
      metadata?: Record<string, string> | undefined
    }
    answer: {
      success: true
      partner: {
        id: number
        name: string
        email: string | null
        status: 'active' | 'inactive' | 'ended'
        has_account: boolean
        external_id: string | null
        group_id: number | null
        rules: {
          id: number
          product_id: string | null
          sale_type: string | null
          commission_bp: number
          currency: string
          commission_fixed_cents: number
          lifetime_cap_cents: number | null
          commission_duration_months: number | null
          lead_commission_cents: number | null
          since: string
        }[]
        metadata: Record<string, string>
        links: { id: number; code: string; page_url: string | null; status: 'active' | 'inactive'; clicks: number }[]
        has_more_links: boolean
        sales: number
        balances: { currency: string; balance_cents: number }[]
        created_at: string
      }
    }
  }
  /** List partners. */
  listPartners: {
    query: {
      /** How many, 25 where it is not given. */
      limit?: number | undefined
      /** `next_cursor` of the page before. Pages never overlap, and what is added meanwhile moves none. */
      cursor?: string | undefined
      /** Only partners in this state. */
      status?: 'active' | 'inactive' | 'ended' | undefined
      /** Only the partner with this address, in letters of either case. */
      email?: string | undefined
      /** Only the partner with this id of yours. */
      external_id?: string | undefined
      /** Only partners of this group. */
      group_id?: number | undefined
      /** Only the partner whose link has this code, in letters of either case. */
      code?: string | undefined
      /** Only partners with this text in their name, address or a code. */
      search?: string | undefined
      /** `newest` first, where it is not given; by `name`; most `clicks`, `sales` or `balance` in the program’s currency first. */
      sort?: 'newest' | 'oldest' | 'name' | 'clicks' | 'sales' | 'balance' | undefined
    }
    body: undefined
    answer: {
      success: true
      data: {
        id: number
        name: string
        email: string | null
        status: 'active' | 'inactive' | 'ended'
        has_account: boolean
        external_id: string | null
        group_id: number | null
        rules: {
          id: number
          product_id: string | null
          sale_type: string | null
          commission_bp: number
          currency: string
          commission_fixed_cents: number
          lifetime_cap_cents: number | null
          commission_duration_months: number | null
          lead_commission_cents: number | null
          since: string
        }[]
        metadata: Record<string, string>
        links: { id: number; code: string; page_url: string | null; status: 'active' | 'inactive'; clicks: number }[]
        has_more_links: boolean
        sales: number
        balances: { currency: string; balance_cents: number }[]
        created_at: string
      }[]
      next_cursor: string | null
    }
  }
  /** Read a partner. */
  getPartner: {
    query: undefined
    body: undefined
    answer: {
      success: true
      partner: {
        id: number
        name: string
        email: string | null
        status: 'active' | 'inactive' | 'ended'
        has_account: boolean
        external_id: string | null
        group_id: number | null
        rules: {
          id: number
          product_id: string | null
          sale_type: string | null
          commission_bp: number
          currency: string
          commission_fixed_cents: number
          lifetime_cap_cents: number | null
          commission_duration_months: number | null
          lead_commission_cents: number | null
          since: string
        }[]
        metadata: Record<string, string>
        links: { id: number; code: string; page_url: string | null; status: 'active' | 'inactive'; clicks: number }[]
        has_more_links: boolean
        sales: number
        balances: { currency: string; balance_cents: number }[]
        created_at: string
      }
    }
  }
  /** Change a partner. */
  updatePartner: {
    query: undefined
    body: {
      /** A new name, where nobody signs in as the partner. */
      name?: string | undefined
      /** A new address, or null for none, where nobody signs in as the partner. An open invitation to the previous address is revoked. */
      email?: string | null | undefined
      /** Switches the partner with all their links on or off. */
      status?: 'active' | 'inactive' | undefined
      /** Your own id, unique in the program. Null takes it away. */
      external_id?: string | null | undefined
      /** The group by whose rules they are paid; null for none. `not_found` where the program has none of this id. What they earn from now on. */
      group_id?: number | null | undefined
      /** All rules, each with all its terms, that hold from now on; one for every sale and one for each product or `sale_type` at most. What is not among them ends, and sales before keep their terms. */
      rules?:
        | {
            product_id?: string | null | undefined
            sale_type?: string | null | undefined
            commission_bp?: number | undefined
            commission_fixed_cents?: number | undefined
            lifetime_cap_cents?: number | null | undefined
            commission_duration_months?: number | null | undefined
            lead_commission_cents?: number | null | undefined
          }[]
        | undefined
      /** Texts of your own by names of your own: 20 at most, of 500 characters, with names of 40. What is named changes, and null takes a name away; the others stay. */
      metadata?: Record<string, string | null> | null | undefined
    }
    answer: {
      success: true
      partner: {
        id: number
        name: string
        email: string | null
        status: 'active' | 'inactive' | 'ended'
        has_account: boolean
        external_id: string | null
        group_id: number | null
        rules: {
          id: number
          product_id: string | null
          sale_type: string | null
          commission_bp: number
          currency: string
          commission_fixed_cents: number
          lifetime_cap_cents: number | null
          commission_duration_months: number | null
          lead_commission_cents: number | null
          since: string
        }[]
        metadata: Record<string, string>
        links: { id: number; code: string; page_url: string | null; status: 'active' | 'inactive'; clicks: number }[]
        has_more_links: boolean
        sales: number
        balances: { currency: string; balance_cents: number }[]
        created_at: string
      }
    }
  }
  /** Add a group. */
  createGroup: {
    query: undefined
    body: {
      /** 1 to 80 characters, unique in the program. */
      name: string
      /** All rules, each with all its terms, that hold from now on; one for every sale and one for each product or `sale_type` at most. What is not among them ends, and sales before keep their terms. */
      rules?:
        | {
            product_id?: string | null | undefined
            sale_type?: string | null | undefined
            commission_bp?: number | undefined
            commission_fixed_cents?: number | undefined
            lifetime_cap_cents?: number | null | undefined
            commission_duration_months?: number | null | undefined
            lead_commission_cents?: number | null | undefined
          }[]
        | undefined
    }
    answer: {
      success: true
      group: {
        id: number
        name: string
        partners: number
        rules: {
          id: number
          product_id: string | null
          sale_type: string | null
          commission_bp: number
          currency: string
          commission_fixed_cents: number
          lifetime_cap_cents: number | null
          commission_duration_months: number | null
          lead_commission_cents: number | null
          since: string
        }[]
        created_at: string
      }
    }
  }
  /** List groups. */
  listGroups: {
    query: {
      /** How many, 25 where it is not given. */
      limit?: number | undefined
      /** `next_cursor` of the page before. Pages never overlap, and what is added meanwhile moves none. */
      cursor?: string | undefined
    }
    body: undefined
    answer: {
      success: true
      data: {
        id: number
        name: string
        partners: number
        rules: {
          id: number
          product_id: string | null
          sale_type: string | null
          commission_bp: number
          currency: string
          commission_fixed_cents: number
          lifetime_cap_cents: number | null
          commission_duration_months: number | null
          lead_commission_cents: number | null
          since: string
        }[]
        created_at: string
      }[]
      next_cursor: string | null
    }
  }
  /** Read a group. */
  getGroup: {
    query: undefined
    body: undefined
    answer: {
      success: true
      group: {
        id: number
        name: string
        partners: number
        rules: {
          id: number
          product_id: string | null
          sale_type: string | null
          commission_bp: number
          currency: string
          commission_fixed_cents: number
          lifetime_cap_cents: number | null
          commission_duration_months: number | null
          lead_commission_cents: number | null
          since: string
        }[]
        created_at: string
      }
    }
  }
  /** Change a group. */
  updateGroup: {
    query: undefined
    body: {
      /** A new name. */
      name?: string | undefined
      /** All rules, each with all its terms, that hold from now on; one for every sale and one for each product or `sale_type` at most. What is not among them ends, and sales before keep their terms. */
      rules?:
        | {
            product_id?: string | null | undefined
            sale_type?: string | null | undefined
            commission_bp?: number | undefined
            commission_fixed_cents?: number | undefined
            lifetime_cap_cents?: number | null | undefined
            commission_duration_months?: number | null | undefined
            lead_commission_cents?: number | null | undefined
          }[]
        | undefined
    }
    answer: {
      success: true
      group: {
        id: number
        name: string
        partners: number
        rules: {
          id: number
          product_id: string | null
          sale_type: string | null
          commission_bp: number
          currency: string
          commission_fixed_cents: number
          lifetime_cap_cents: number | null
          commission_duration_months: number | null
          lead_commission_cents: number | null
          since: string
        }[]
        created_at: string
      }
    }
  }
  /** Move partners to a group. */
  movePartners: {
    query: undefined
    body: {
      /** Ids of partners of the program. Others are left out. */
      partner_ids: number[]
    }
    answer: { success: true; partners: number }
  }
  /** Read the rules for everybody. */
  listRules: {
    query: undefined
    body: undefined
    answer: {
      success: true
      rules: {
        id: number
        product_id: string | null
        sale_type: string | null
        commission_bp: number
        currency: string
        commission_fixed_cents: number
        lifetime_cap_cents: number | null
        commission_duration_months: number | null
        lead_commission_cents: number | null
        since: string
      }[]
    }
  }
  /** Change the rules for everybody. */
  updateRules: {
    query: undefined
    body: {
      /** All rules, each with all its terms, that hold from now on; one for every sale and one for each product or `sale_type` at most. What is not among them ends, and sales before keep their terms. */
      rules: {
        product_id?: string | null | undefined
        sale_type?: string | null | undefined
        commission_bp?: number | undefined
        commission_fixed_cents?: number | undefined
        lifetime_cap_cents?: number | null | undefined
        commission_duration_months?: number | null | undefined
        lead_commission_cents?: number | null | undefined
      }[]
    }
    answer: {
      success: true
      rules: {
        id: number
        product_id: string | null
        sale_type: string | null
        commission_bp: number
        currency: string
        commission_fixed_cents: number
        lifetime_cap_cents: number | null
        commission_duration_months: number | null
        lead_commission_cents: number | null
        since: string
      }[]
    }
  }
  /** Preview a change of rules. */
  previewRules: {
    query: undefined
    body: {
      /** Whose rules they would be. */
      group_id?: number | undefined
      /** Whose rules they would be. */
      partner_id?: number | undefined
      /** All rules that would hold instead of those that do. */
      rules: {
        product_id?: string | null | undefined
        sale_type?: string | null | undefined
        commission_bp?: number | undefined
        commission_fixed_cents?: number | undefined
        lifetime_cap_cents?: number | null | undefined
        commission_duration_months?: number | null | undefined
        lead_commission_cents?: number | null | undefined
      }[]
      /** Such as 2026-01, in UTC. The month before this one where it is not given. */
      month?: string | undefined
    }
    answer: {
      success: true
      preview: {
        month: string
        totals: { currency: string; brought_cents: number; now_cents: number; then_cents: number }[]
        partners: {
          partner_id: number
          name: string
          currency: string
          brought_cents: number
          now_cents: number
          then_cents: number
        }[]
      }
    }
  }
  /** Remove a group. */
  deleteGroup: {
    query: undefined
    body: undefined
    answer: { success: true; deleted_id: number }
  }
  /** Change the join page. */
  updateJoinPage: {
    query: undefined
    body: {
      /** 3 to 60 lower-case letters, digits and hyphens. */
      slug?: string | undefined
      /** Whether the page is there. Your own form works without it. */
      is_open?: boolean | undefined
      /** Whether who confirmed their address is a partner at once. Somebody whom the program rejected or ended before waits for a person all the same. */
      approves_at_once?: boolean | undefined
      /** Plain text: an empty line begins a paragraph, a line that begins with `- ` is of a list. */
      intro?: string | null | undefined
      /** The `https://` address of an image, which visitors load from there. */
      logo_url?: string | null | undefined
      /** What is asked beside name and address, ten at most. `short` answers have 300 characters at most, `long` ones 3,000. */
      questions?: { label: string; type?: 'short' | 'long' | undefined; required?: boolean | undefined }[] | undefined
      /** What applicants accept. Another text is the next `terms_version`, and applications keep the one that was accepted. */
      terms?: string | null | undefined
    }
    answer: {
      success: true
      join_page: {
        slug: string | null
        url: string | null
        is_open: boolean
        approves_at_once: boolean
        intro: string | null
        logo_url: string | null
        questions: { label: string; type: 'short' | 'long'; required: boolean }[]
        terms: string | null
        terms_version: number | null
        terms_since: string | null
      }
    }
  }
  /** Read the join page. */
  getJoinPage: {
    query: undefined
    body: undefined
    answer: {
      success: true
      join_page: {
        slug: string | null
        url: string | null
        is_open: boolean
        approves_at_once: boolean
        intro: string | null
        logo_url: string | null
        questions: { label: string; type: 'short' | 'long'; required: boolean }[]
        terms: string | null
        terms_version: number | null
        terms_since: string | null
      }
    }
  }
  /** Apply by your own form. */
  createApplication: {
    query: undefined
    body: {
      /** 1 to 80 characters. */
      name: string
      /** Where the link is mailed. */
      email: string
      /** An answer to each required question, and to no others, each by its label. */
      answers?: { question: string; answer: string }[] | undefined
      /** The version of the terms that the applicant accepted, which has to be the present one. */
      terms_version?: number | null | undefined
    }
    answer: {
      success: true
      application: {
        id: number
        status: 'unverified' | 'waiting' | 'approved' | 'rejected'
        source: 'page' | 'api'
        name: string
        email: string | null
        answers: { question: string; answer: string }[]
        terms_version: number | null
        partner_id: number | null
        note: string | null
        applied_at: string
        verified_at: string | null
        decided_at: string | null
        decided_by: string | null
      }
    }
  }
  /** List applications. */
  listApplications: {
    query: {
      /** How many, 25 where it is not given. */
      limit?: number | undefined
      /** `next_cursor` of the page before. Pages never overlap, and what is added meanwhile moves none. */
      cursor?: string | undefined
      /** Only those in this state. */
      status?: 'unverified' | 'waiting' | 'approved' | 'rejected' | undefined
      /** Only those with this address. */
      email?: string | undefined
    }
    body: undefined
    answer: {
      success: true
      data: {
        id: number
        status: 'unverified' | 'waiting' | 'approved' | 'rejected'
        source: 'page' | 'api'
        name: string
        email: string | null
        answers: { question: string; answer: string }[]
        terms_version: number | null
        partner_id: number | null
        note: string | null
        applied_at: string
        verified_at: string | null
        decided_at: string | null
        decided_by: string | null
      }[]
      next_cursor: string | null
    }
  }
  /** Read an application. */
  getApplication: {
    query: undefined
    body: undefined
    answer: {
      success: true
      application: {
        id: number
        status: 'unverified' | 'waiting' | 'approved' | 'rejected'
        source: 'page' | 'api'
        name: string
        email: string | null
        answers: { question: string; answer: string }[]
        terms_version: number | null
        partner_id: number | null
        note: string | null
        applied_at: string
        verified_at: string | null
        decided_at: string | null
        decided_by: string | null
      }
    }
  }
  /** Approve or reject an application. */
  decideApplication: {
    query: undefined
    body: {
      /** `approved` or `rejected`. */
      status: 'approved' | 'rejected'
      /** The group that the partner comes into. */
      group_id?: number | null | undefined
      /** Why it is rejected, for yourself. */
      note?: string | undefined
      /** Whether who is rejected is told by mail. Not unless it is true. */
      notify?: boolean | undefined
    }
    answer: {
      success: true
      application: {
        id: number
        status: 'unverified' | 'waiting' | 'approved' | 'rejected'
        source: 'page' | 'api'
        name: string
        email: string | null
        answers: { question: string; answer: string }[]
        terms_version: number | null
        partner_id: number | null
        note: string | null
        applied_at: string
        verified_at: string | null
        decided_at: string | null
        decided_by: string | null
      }
    }
  }
  /** Delete an application. */
  deleteApplication: {
    query: undefined
    body: undefined
    answer: { success: true; deleted_id: number }
  }
  /** Add a code. */
  createCode: {
    query: undefined
    body: {
      /** Whose it is. */
      partner_id: number
      /** 1 to 64 characters without spaces, in letters of either case. Absent where `promotion_code_id` names it. */
      code?: string | undefined
      /** Absent: a code of your own. Else `promotion_code_id` of an existing promotion code of the connected account, or `coupon_id` of an existing coupon, or what a new coupon takes off: `percent_off` or `amount_off_cents` in the program's currency, and of which payments of a subscription, as its `duration`: `once` of the first, `repeating` of those of `duration_in_months`, `forever` of all. */
      stripe?:
        | { promotion_code_id: string }
        | { coupon_id: string }
        | {
            percent_off?: number | undefined
            amount_off_cents?: number | undefined
            duration: 'once' | 'repeating' | 'forever'
            duration_in_months?: number | undefined
          }
        | undefined
    }
    answer: {
      success: true
      code: {
        id: number
        code: string
        partner_id: number
        status: 'active' | 'revoked'
        promotion_code_id: string | null
        created_at: string
        revoked_at: string | null
      }
    }
  }
  /** List codes. */
  listCodes: {
    query: {
      /** How many, 25 where it is not given. */
      limit?: number | undefined
      /** `next_cursor` of the page before. Pages never overlap, and what is added meanwhile moves none. */
      cursor?: string | undefined
      /** Only codes of this partner. */
      partner_id?: number | undefined
      /** Only this one, in letters of either case. */
      code?: string | undefined
      /** Only codes in this state. */
      status?: 'active' | 'revoked' | undefined
    }
    body: undefined
    answer: {
      success: true
      data: {
        id: number
        code: string
        partner_id: number
        status: 'active' | 'revoked'
        promotion_code_id: string | null
        created_at: string
        revoked_at: string | null
      }[]
      next_cursor: string | null
    }
  }
  /** Read a code. */
  getCode: {
    query: undefined
    body: undefined
    answer: {
      success: true
      code: {
        id: number
        code: string
        partner_id: number
        status: 'active' | 'revoked'
        promotion_code_id: string | null
        created_at: string
        revoked_at: string | null
      }
    }
  }
  /** Revoke a code. */
  revokeCode: {
    query: undefined
    body: undefined
    answer: {
      success: true
      code: {
        id: number
        code: string
        partner_id: number
        status: 'active' | 'revoked'
        promotion_code_id: string | null
        created_at: string
        revoked_at: string | null
      }
    }
  }
  /** Add a link. */
  createLink: {
    query: undefined
    body: {
      /** Whose link it is. */
      partner_id: number
      /** Stands in the link as `aff`: 1 to 64 letters, digits and `. _ @ -`, unique over all programs. Absent: one is made up. */
      code?: string | undefined
      /** The page that the link opens, on the program’s domain; null for its start page. */
      page_url?: string | null | undefined
      /** Your own id, unique in the program. */
      external_id?: string | null | undefined
      /** Texts of your own by names of your own: 20 at most, of 500 characters, with names of 40. */
      metadata?: Record<string, string> | undefined
    }
    answer: {
      success: true
      link: {
        id: number
        partner_id: number | null
        code: string
        url: string
        page_url: string | null
        status: 'active' | 'inactive'
        external_id: string | null
        metadata: Record<string, string>
        clicks: number
        bot_clicks: number
        last_clicked_at: string | null
        created_at: string
      }
    }
  }
  /** List links. */
  listLinks: {
    query: {
      /** How many, 25 where it is not given. */
      limit?: number | undefined
      /** `next_cursor` of the page before. Pages never overlap, and what is added meanwhile moves none. */
      cursor?: string | undefined
      /** Only links in this state. */
      status?: 'active' | 'inactive' | undefined
      /** Only links of this partner. */
      partner_id?: number | undefined
      /** Only the link with this id of yours. */
      external_id?: string | undefined
      /** Only the link with this code, in letters of either case. */
      code?: string | undefined
      /** Only links with this text in their code or page. */
      search?: string | undefined
    }
    body: undefined
    answer: {
      success: true
      data: {
        id: number
        partner_id: number | null
        code: string
        url: string
        page_url: string | null
        status: 'active' | 'inactive'
        external_id: string | null
        metadata: Record<string, string>
        clicks: number
        bot_clicks: number
        last_clicked_at: string | null
        created_at: string
      }[]
      next_cursor: string | null
    }
  }
  /** Read a link. */
  getLink: {
    query: undefined
    body: undefined
    answer: {
      success: true
      link: {
        id: number
        partner_id: number | null
        code: string
        url: string
        page_url: string | null
        status: 'active' | 'inactive'
        external_id: string | null
        metadata: Record<string, string>
        clicks: number
        bot_clicks: number
        last_clicked_at: string | null
        created_at: string
      }
    }
  }
  /** Change a link. */
  updateLink: {
    query: undefined
    body: {
      /** Switches the link on or off. */
      status?: 'active' | 'inactive' | undefined
      /** The page that the link opens, on the program’s domain; null for its start page. */
      page_url?: string | null | undefined
      /** Your own id, unique in the program. Null takes it away. */
      external_id?: string | null | undefined
      /** Texts of your own by names of your own: 20 at most, of 500 characters, with names of 40. What is named changes, and null takes a name away; the others stay. */
      metadata?: Record<string, string | null> | null | undefined
    }
    answer: {
      success: true
      link: {
        id: number
        partner_id: number | null
        code: string
        url: string
        page_url: string | null
        status: 'active' | 'inactive'
        external_id: string | null
        metadata: Record<string, string>
        clicks: number
        bot_clicks: number
        last_clicked_at: string | null
        created_at: string
      }
    }
  }
  /** List customers. */
  listCustomers: {
    query: {
      /** How many, 25 where it is not given. */
      limit?: number | undefined
      /** `next_cursor` of the page before. Pages never overlap, and what is added meanwhile moves none. */
      cursor?: string | undefined
      /** Only customers in this state. */
      status?: 'click' | 'lead' | 'conversion' | undefined
      /** Only the customer with this id of yours. */
      customer_key?: string | undefined
      /** Only leads and buyers whom this partner brought; their other visitors are figures of performance. */
      partner_id?: number | undefined
    }
    body: undefined
    answer: {
      success: true
      data: {
        id: number
        click_id: string
        customer_key: string | null
        status: 'click' | 'lead' | 'conversion'
        partner_id: number
        link_id: number | null
        last_click_at: string | null
        is_provisional_lead: boolean
        signup_date: string | null
        first_purchase_date: string | null
        created_at: string
      }[]
      next_cursor: string | null
    }
  }
  /** Read a customer. */
  getCustomer: {
    query: undefined
    body: undefined
    answer: {
      success: true
      customer: {
        id: number
        click_id: string
        customer_key: string | null
        status: 'click' | 'lead' | 'conversion'
        partner_id: number
        link_id: number | null
        last_click_at: string | null
        is_provisional_lead: boolean
        signup_date: string | null
        first_purchase_date: string | null
        created_at: string
      }
    }
  }
  /** List sales. */
  listSales: {
    query: {
      /** How many, 25 where it is not given. */
      limit?: number | undefined
      /** `next_cursor` of the page before. Pages never overlap, and what is added meanwhile moves none. */
      cursor?: string | undefined
      /** Only sales to the customer with this id of yours. */
      customer_key?: string | undefined
      /** Only sales to the customer with this click id. */
      click_id?: string | undefined
      /** Only sales that this partner brought. */
      partner_id?: number | undefined
      /** `true` for test sales in place of the others. */
      test?: boolean | undefined
    }
    body: undefined
    answer: {
      success: true
      data: {
        id: number
        transaction_id: string
        is_test: boolean
        sale_date: string
        partner_id: number | null
        click_id: string | null
        customer_key: string | null
        amount_cents: number
        refunded_cents: number
        currency: string
        sale_type: string
        payment_status: string
        is_recurring: boolean
        subscription_id: string | null
        coupon: string | null
        code_id: number | null
        commission: {
          id: number
          status: 'pending' | 'approved' | 'paid' | 'refunded' | 'reversed'
          amount_cents: number
          reversed_cents: number
        } | null
      }[]
      next_cursor: string | null
    }
  }
  /** Read a sale. */
  getSale: {
    query: {
      /** `true` for test sales in place of the others. */
      test?: boolean | undefined
    }
    body: undefined
    answer: {
      success: true
      sale: {
        id: number
        transaction_id: string
        is_test: boolean
        sale_date: string
        partner_id: number | null
        click_id: string | null
        customer_key: string | null
        amount_cents: number
        refunded_cents: number
        currency: string
        sale_type: string
        payment_status: string
        is_recurring: boolean
        subscription_id: string | null
        coupon: string | null
        code_id: number | null
        commission: {
          id: number
          status: 'pending' | 'approved' | 'paid' | 'refunded' | 'reversed'
          amount_cents: number
          reversed_cents: number
        } | null
      }
    }
  }
  /** Explain a sale. */
  explainSale: {
    query: {
      /** `true` for test sales in place of the others. */
      test?: boolean | undefined
    }
    body: undefined
    answer: {
      success: true
      explanation: {
        transaction_id: string
        is_test: boolean
        attributed: boolean
        summary: string
        sale: {
          sale_date: string
          amount_cents: number
          tax_cents: number
          commission_base_cents: number
          refunded_cents: number
          currency: string
          source: string
        } | null
        partner: { id: number; name: string } | null
        link: { id: number; code: string } | null
        code: { id: number; code: string } | null
        customer: { click_id: string; customer_key: string | null } | null
        steps: { step: string; found: string; text: string }[]
        click: {
          first_at: string
          latest_at: string
          decided_at: string
          age_seconds: number
          window_days: number
          within_window: boolean
          attribution_model: string
          text: string
          campaign: Record<string, string> | null
          event: {
            page_url: string | null
            referrer_url: string | null
            country: string | null
            device: string | null
          } | null
        } | null
        rule: {
          id: number | null
          text: string
          commission_bp: number
          commission_percent: number
          fixed_cents: number
          cap_cents: number | null
          duration_months: number | null
          first_purchase_date: string | null
          hold_days: number | null
        } | null
        commission: {
          id: number | null
          status: 'pending' | 'approved' | 'paid' | 'refunded' | 'reversed' | null
          exact: string
          amount_cents: number
          reversed_cents: number
          left_cents: number
          currency: string
          text: string
        } | null
        lead_commission: {
          id: number
          amount_cents: number
          reversed_cents: number
          currency: string
          text: string
        } | null
        payout: { id: number; payout_run_id: number | null } | null
        history: {
          at: string
          kind: string
          text: string
          change_cents: number
          entry: { number: number; amount_cents: number; balance_cents: number } | null
        }[]
        deliveries: {
          event_id: string
          event_type: string
          outcome: string
          reason: string | null
          received_at: string
        }[]
      }
    }
  }
  /** List clicks, leads and sales. */
  listEvents: {
    query: {
      /** How many, 25 where it is not given. */
      limit?: number | undefined
      /** `next_cursor` of the page before. Pages never overlap, and what is added meanwhile moves none. */
      cursor?: string | undefined
      /** Only events of this type. */
      event_type?: 'click' | 'lead' | 'conversion' | undefined
      /** ISO 8601 date or time: the earliest, itself included. */
      dateFrom?: string | undefined
      /** ISO 8601 date or time: the latest, itself included. */
      dateTo?: string | undefined
    }
    body: undefined
    answer: {
      success: true
      data: (
        | {
            id: number
            timestamp: string
            click_id: string
            createdAt: string
            event_type: 'click'
            session_id: string | null
            page_url: string | null
            converted: boolean
            referrer_url: string | null
            geo_country: string | null
            geo_region: string | null
            geo_city: string | null
            device_type: string | null
            device_os: string | null
            browser_name: string | null
          }
        | {
            id: number
            timestamp: string
            click_id: string
            createdAt: string
            event_type: 'lead'
            session_id: string | null
            page_url: string | null
            converted: boolean
            customer_key?: string | null | undefined
          }
        | {
            id: number
            timestamp: string
            click_id: string
            createdAt: string
            event_type: 'conversion'
            transaction_id: string
            amount_cents: number
            refunded_cents: number
            currency: string
            sale_type: string
            payment_status: string
            processor_event_id: string | null
            is_recurring: boolean
          }
      )[]
      next_cursor: string | null
    }
  }
  /** List commissions. */
  listCommissions: {
    query: {
      /** How many, 25 where it is not given. */
      limit?: number | undefined
      /** `next_cursor` of the page before. Pages never overlap, and what is added meanwhile moves none. */
      cursor?: string | undefined
      /** Only commissions in this state. */
      status?: 'pending' | 'approved' | 'paid' | 'refunded' | 'reversed' | undefined
      /** Only commissions of this partner. */
      partner_id?: number | undefined
      /** Only the commission of this sale. */
      transaction_id?: string | undefined
      /** `newest` first, where it is not given; the largest `amount` first; whose `hold` ends next first. */
      sort?: 'newest' | 'oldest' | 'amount' | 'hold' | undefined
    }
    body: undefined
    answer: {
      success: true
      data: {
        id: number
        kind: 'sale' | 'lead'
        partner_id: number
        status: 'pending' | 'approved' | 'paid' | 'refunded' | 'reversed'
        currency: string
        amount_cents: number
        reversed_cents: number
        reason: string | null
        review_reason: string | null
        held_at: string | null
        review_decision: 'released' | 'rejected' | null
        flags: string[] | null
        transaction_id: string | null
        sale_cents: number | null
        hold_until: string
        credited_at: string | null
        rejected_at: string | null
        created_at: string
      }[]
      next_cursor: string | null
    }
  }
  /** Approve or reject several commissions. */
  decideCommissions: {
    query: undefined
    body: {
      /** Ids of commissions, 1 to 100. */
      ids: number[]
      /** What becomes of them. */
      status: 'approved' | 'rejected'
      /** Why they are rejected. The partners see it. */
      reason?: string | undefined
    }
    answer: {
      success: true
      changed: number
      data: {
        id: number
        kind: 'sale' | 'lead'
        partner_id: number
        status: 'pending' | 'approved' | 'paid' | 'refunded' | 'reversed'
        currency: string
        amount_cents: number
        reversed_cents: number
        reason: string | null
        review_reason: string | null
        held_at: string | null
        review_decision: 'released' | 'rejected' | null
        flags: string[] | null
        transaction_id: string | null
        sale_cents: number | null
        hold_until: string
        credited_at: string | null
        rejected_at: string | null
        created_at: string
      }[]
    }
  }
  /** Approve or reject a commission. */
  decideCommission: {
    query: undefined
    body: {
      /** What becomes of it. */
      status: 'approved' | 'rejected'
      /** Why it is rejected. The partner sees it. */
      reason?: string | undefined
    }
    answer: {
      success: true
      commission: {
        id: number
        kind: 'sale' | 'lead'
        partner_id: number
        status: 'pending' | 'approved' | 'paid' | 'refunded' | 'reversed'
        currency: string
        amount_cents: number
        reversed_cents: number
        reason: string | null
        review_reason: string | null
        held_at: string | null
        review_decision: 'released' | 'rejected' | null
        flags: string[] | null
        transaction_id: string | null
        sale_cents: number | null
        hold_until: string
        credited_at: string | null
        rejected_at: string | null
        created_at: string
      }
    }
  }
  /** Create a payout run. */
  createPayoutRun: {
    query: undefined
    body: undefined
    answer: {
      success: true
      payout_run: {
        id: number
        status: 'open' | 'paid'
        payouts: number
        reference: string | null
        paid_on: string | null
        created_at: string
      }
    }
  }
  /** List payout runs. */
  listPayoutRuns: {
    query: {
      /** How many, 25 where it is not given. */
      limit?: number | undefined
      /** `next_cursor` of the page before. Pages never overlap, and what is added meanwhile moves none. */
      cursor?: string | undefined
      /** `newest` first, where it is not given; those with the most `payments` first. */
      sort?: 'newest' | 'oldest' | 'payments' | undefined
    }
    body: undefined
    answer: {
      success: true
      data: {
        id: number
        status: 'open' | 'paid'
        payouts: number
        reference: string | null
        paid_on: string | null
        created_at: string
      }[]
      next_cursor: string | null
    }
  }
  /** Read a payout run. */
  getPayoutRun: {
    query: undefined
    body: undefined
    answer: {
      success: true
      payout_run: {
        id: number
        status: 'open' | 'paid'
        payouts: number
        reference: string | null
        paid_on: string | null
        created_at: string
        payout_list: {
          id: number
          partner_id: number
          payout_address: string | null
          amount_cents: number
          requested_cents: number
          currency: string
          status: 'requested' | 'paid' | 'refused' | 'cancelled'
        }[]
        left_out: {
          partner_id: number
          currency: string
          payable_cents: number
          reason: 'below_minimum' | 'no_payout_address' | 'payout_address_changed'
        }[]
      }
    }
  }
  /** List payouts. */
  listPayouts: {
    query: {
      /** How many, 25 where it is not given. */
      limit?: number | undefined
      /** `next_cursor` of the page before. Pages never overlap, and what is added meanwhile moves none. */
      cursor?: string | undefined
      /** Only payouts in this state. */
      status?: 'requested' | 'paid' | 'refused' | 'cancelled' | undefined
      /** Only payouts to this partner. */
      partner_id?: number | undefined
      /** Only payouts of this run. */
      payout_run_id?: number | undefined
      /** `newest` first, where it is not given; the largest `amount` first. */
      sort?: 'newest' | 'oldest' | 'amount' | undefined
    }
    body: undefined
    answer: {
      success: true
      data: {
        id: number
        partner_id: number
        currency: string
        requested_cents: number
        amount_cents: number
        status: 'requested' | 'paid' | 'refused' | 'cancelled'
        reason: string | null
        payout_run_id: number | null
        payout_address: string | null
        payout_waits_until: string | null
        reference: string | null
        paid_on: string | null
        created_at: string
        decided_at: string | null
      }[]
      next_cursor: string | null
    }
  }
  /** Read a payout. */
  getPayout: {
    query: undefined
    body: undefined
    answer: {
      success: true
      payout: {
        id: number
        partner_id: number
        currency: string
        requested_cents: number
        amount_cents: number
        status: 'requested' | 'paid' | 'refused' | 'cancelled'
        reason: string | null
        payout_run_id: number | null
        payout_address: string | null
        payout_waits_until: string | null
        reference: string | null
        paid_on: string | null
        created_at: string
        decided_at: string | null
      }
    }
  }
  /** Record a payout as paid, or refuse it. */
  decidePayout: {
    query: undefined
    body: {
      /** What becomes of it. */
      status: 'paid' | 'refused'
      /** With `paid`: what was transferred, which has to be what it stands at. */
      amount_cents?: number | undefined
      /** With `paid`: what the transfer is called at the bank or PayPal. */
      reference?: string | undefined
      /** With `paid`: the day of the transfer. */
      paid_on?: string | undefined
      /** With `refused`: why. The partner is told. */
      reason?: string | undefined
    }
    answer: {
      success: true
      payout: {
        id: number
        partner_id: number
        currency: string
        requested_cents: number
        amount_cents: number
        status: 'requested' | 'paid' | 'refused' | 'cancelled'
        reason: string | null
        payout_run_id: number | null
        payout_address: string | null
        payout_waits_until: string | null
        reference: string | null
        paid_on: string | null
        created_at: string
        decided_at: string | null
      }
    }
  }
  /** Add a manual commission or a deduction. */
  createAdjustment: {
    query: undefined
    body: {
      /** Whose balance. */
      partner_id: number
      /** How much, in the smallest unit of the currency; below zero it is deducted. */
      amount_cents: number
      /** The program’s own where it is not given. */
      currency?: string | undefined
      /** Why. The partner reads it. */
      note: string
      /** The sale that it is about, where it is about one. */
      transaction_id?: string | undefined
      /** An id of yours, unique in the program for ever: one sent twice is refused. */
      external_id?: string | undefined
    }
    answer: {
      success: true
      adjustment: {
        id: number
        partner_id: number
        currency: string
        amount_cents: number
        note: string | null
        transaction_id: string | null
        external_id: string | null
        paid_at: string | null
        created_at: string
      }
    }
  }
  /** List manual commissions and deductions. */
  listAdjustments: {
    query: {
      /** How many, 25 where it is not given. */
      limit?: number | undefined
      /** `next_cursor` of the page before. Pages never overlap, and what is added meanwhile moves none. */
      cursor?: string | undefined
      /** Only those of this partner. */
      partner_id?: number | undefined
      /** Only the one with this id of yours. */
      external_id?: string | undefined
    }
    body: undefined
    answer: {
      success: true
      data: {
        id: number
        partner_id: number
        currency: string
        amount_cents: number
        note: string | null
        transaction_id: string | null
        external_id: string | null
        paid_at: string | null
        created_at: string
      }[]
      next_cursor: string | null
    }
  }
  /** List held commissions. */
  listReviews: {
    query: {
      /** How many, 25 where it is not given. */
      limit?: number | undefined
      /** `next_cursor` of the page before. Pages never overlap, and what is added meanwhile moves none. */
      cursor?: string | undefined
      /** Only those that wait for a decision, or that were decided on. */
      state?: 'waiting' | 'decided' | undefined
      /** Only those of this partner. */
      partner_id?: number | undefined
    }
    body: undefined
    answer: {
      success: true
      data: {
        commission_id: number
        partner_id: number
        transaction_id: string | null
        kind: 'sale' | 'lead'
        status: string
        currency: string
        amount_cents: number
        reversed_cents: number
        hold_until: string
        flagged_at: string
        decision: 'released' | 'rejected' | null
        note: string | null
        decided_at: string | null
        decided_by: string | null
        flags: {
          rule: 'self_referral' | 'one_address' | 'no_page_view' | 'bot' | 'paid_ads'
          evidence?: Record<string, string | number | null> | undefined
        }[]
      }[]
      next_cursor: string | null
    }
  }
  /** Decide on held commissions. */
  decideReviews: {
    query: undefined
    body: {
      /** Ids of held commissions, 1 to 100. */
      commission_ids: number[]
      /** What becomes of them. */
      decision: 'released' | 'rejected'
      /** Why. */
      note: string
    }
    answer: {
      success: true
      changed: number
      data: {
        commission_id: number
        partner_id: number
        transaction_id: string | null
        kind: 'sale' | 'lead'
        status: string
        currency: string
        amount_cents: number
        reversed_cents: number
        hold_until: string
        flagged_at: string
        decision: 'released' | 'rejected' | null
        note: string | null
        decided_at: string | null
        decided_by: string | null
        flags: {
          rule: 'self_referral' | 'one_address' | 'no_page_view' | 'bot' | 'paid_ads'
          evidence?: Record<string, string | number | null> | undefined
        }[]
      }[]
    }
  }
  /** Add a webhook endpoint. */
  createWebhookEndpoint: {
    query: undefined
    body: {
      /** Where webhooks go: `https://` to a public host. A name that leads to a private address is refused when it is sent to; redirects are not followed. Null where the deliveries are fetched, as `svc listen` does; such an endpoint is deleted after a day. */
      url: string | null
      /** A note of yours: 200 characters at most. */
      description?: string | null | undefined
      /** What it is told: `lead.created`, `sale.created`, `sale.refunded`, `commission.created`, `commission.approved`, `commission.reversed`, `commission.flagged`, `commission.released`, `partner.applied`, `partner.joined`, `adjustment.created`, `payout.requested`, `payout.reduced`, `payout.paid`. */
      types: (
        | 'lead.created'
        | 'sale.created'
        | 'sale.refunded'
        | 'commission.created'
        | 'commission.approved'
        | 'commission.reversed'
        | 'commission.flagged'
        | 'commission.released'
        | 'partner.applied'
        | 'partner.joined'
        | 'adjustment.created'
        | 'payout.requested'
        | 'payout.reduced'
        | 'payout.paid'
      )[]
    }
    answer: {
      success: true
      webhook_endpoint: {
        id: number
        url: string | null
        description: string
        types: (
          | 'lead.created'
          | 'sale.created'
          | 'sale.refunded'
          | 'commission.created'
          | 'commission.approved'
          | 'commission.reversed'
          | 'commission.flagged'
          | 'commission.released'
          | 'partner.applied'
          | 'partner.joined'
          | 'adjustment.created'
          | 'payout.requested'
          | 'payout.reduced'
          | 'payout.paid'
        )[]
        status: 'active' | 'inactive'
        inactive_because: 'owner' | 'failures' | null
        failing_since: string | null
        previous_secret_until: string | null
        created_at: string
        secret: string
      }
    }
  }
  /** List webhook endpoints. */
  listWebhookEndpoints: {
    query: {
      /** How many, 25 where it is not given. */
      limit?: number | undefined
      /** `next_cursor` of the page before. Pages never overlap, and what is added meanwhile moves none. */
      cursor?: string | undefined
    }
    body: undefined
    answer: {
      success: true
      data: {
        id: number
        url: string | null
        description: string
        types: (
          | 'lead.created'
          | 'sale.created'
          | 'sale.refunded'
          | 'commission.created'
          | 'commission.approved'
          | 'commission.reversed'
          | 'commission.flagged'
          | 'commission.released'
          | 'partner.applied'
          | 'partner.joined'
          | 'adjustment.created'
          | 'payout.requested'
          | 'payout.reduced'
          | 'payout.paid'
        )[]
        status: 'active' | 'inactive'
        inactive_because: 'owner' | 'failures' | null
        failing_since: string | null
        previous_secret_until: string | null
        created_at: string
      }[]
      next_cursor: string | null
    }
  }
  /** Read a webhook endpoint. */
  getWebhookEndpoint: {
    query: undefined
    body: undefined
    answer: {
      success: true
      webhook_endpoint: {
        id: number
        url: string | null
        description: string
        types: (
          | 'lead.created'
          | 'sale.created'
          | 'sale.refunded'
          | 'commission.created'
          | 'commission.approved'
          | 'commission.reversed'
          | 'commission.flagged'
          | 'commission.released'
          | 'partner.applied'
          | 'partner.joined'
          | 'adjustment.created'
          | 'payout.requested'
          | 'payout.reduced'
          | 'payout.paid'
        )[]
        status: 'active' | 'inactive'
        inactive_because: 'owner' | 'failures' | null
        failing_since: string | null
        previous_secret_until: string | null
        created_at: string
      }
    }
  }
  /** Change a webhook endpoint. */
  updateWebhookEndpoint: {
    query: undefined
    body: {
      /** Where webhooks go: `https://` to a public host. A name that leads to a private address is refused when it is sent to; redirects are not followed. */
      url?: string | undefined
      /** A note of yours: 200 characters at most. Null takes it away. */
      description?: string | null | undefined
      /** What it is told: `lead.created`, `sale.created`, `sale.refunded`, `commission.created`, `commission.approved`, `commission.reversed`, `commission.flagged`, `commission.released`, `partner.applied`, `partner.joined`, `adjustment.created`, `payout.requested`, `payout.reduced`, `payout.paid`. */
      types?:
        | (
            | 'lead.created'
            | 'sale.created'
            | 'sale.refunded'
            | 'commission.created'
            | 'commission.approved'
            | 'commission.reversed'
            | 'commission.flagged'
            | 'commission.released'
            | 'partner.applied'
            | 'partner.joined'
            | 'adjustment.created'
            | 'payout.requested'
            | 'payout.reduced'
            | 'payout.paid'
          )[]
        | undefined
      /** Enables or disables the endpoint. Nothing is sent to it for what happens while it is disabled. */
      status?: 'active' | 'inactive' | undefined
    }
    answer: {
      success: true
      webhook_endpoint: {
        id: number
        url: string | null
        description: string
        types: (
          | 'lead.created'
          | 'sale.created'
          | 'sale.refunded'
          | 'commission.created'
          | 'commission.approved'
          | 'commission.reversed'
          | 'commission.flagged'
          | 'commission.released'
          | 'partner.applied'
          | 'partner.joined'
          | 'adjustment.created'
          | 'payout.requested'
          | 'payout.reduced'
          | 'payout.paid'
        )[]
        status: 'active' | 'inactive'
        inactive_because: 'owner' | 'failures' | null
        failing_since: string | null
        previous_secret_until: string | null
        created_at: string
      }
    }
  }
  /** Rotate a webhook secret. */
  rotateWebhookSecret: {
    query: undefined
    body: undefined
    answer: {
      success: true
      webhook_endpoint: {
        id: number
        url: string | null
        description: string
        types: (
          | 'lead.created'
          | 'sale.created'
          | 'sale.refunded'
          | 'commission.created'
          | 'commission.approved'
          | 'commission.reversed'
          | 'commission.flagged'
          | 'commission.released'
          | 'partner.applied'
          | 'partner.joined'
          | 'adjustment.created'
          | 'payout.requested'
          | 'payout.reduced'
          | 'payout.paid'
        )[]
        status: 'active' | 'inactive'
        inactive_because: 'owner' | 'failures' | null
        failing_since: string | null
        previous_secret_until: string | null
        created_at: string
        secret: string
      }
    }
  }
  /** Send a test event. */
  testWebhookEndpoint: {
    query: undefined
    body: undefined
    answer: { success: true; delivery_id: string }
  }
  /** List webhook deliveries. */
  listWebhookDeliveries: {
    query: {
      /** How many, 25 where it is not given. */
      limit?: number | undefined
      /** `next_cursor` of the page before. Pages never overlap, and what is added meanwhile moves none. */
      cursor?: string | undefined
      /** Only deliveries in this state. */
      status?: 'pending' | 'delivered' | 'failed' | 'to_fetch' | undefined
    }
    body: undefined
    answer: {
      success: true
      data: {
        id: string
        type: string
        status: 'pending' | 'delivered' | 'failed' | 'to_fetch'
        tries: number
        next_try_at: string | null
        finished_at: string | null
        payload: { id: string; type: string; timestamp: string; sequence: number; data: Record<string, unknown> }
      }[]
      next_cursor: string | null
    }
  }
  /** Read a webhook delivery. */
  getWebhookDelivery: {
    query: undefined
    body: undefined
    answer: {
      success: true
      delivery: {
        id: string
        type: string
        status: 'pending' | 'delivered' | 'failed' | 'to_fetch'
        tries: number
        next_try_at: string | null
        finished_at: string | null
        payload: { id: string; type: string; timestamp: string; sequence: number; data: Record<string, unknown> }
        attempts: {
          attempted_at: string
          duration_ms: number
          status: number | null
          error: string | null
          answer: string | null
        }[]
      }
    }
  }
  /** Send webhooks again. */
  replayWebhooks: {
    query: undefined
    body: {
      /** One delivery, such as `evt_1`. */
      delivery_id?: string | undefined
      /** Or those of what happened from this time on, ISO 8601. */
      since?: string | undefined
      /** Only before this time. */
      until?: string | undefined
      /** Only those that no try brought to the endpoint. */
      failed_only?: boolean | undefined
    }
    answer: { success: true; replayed: number }
  }
  /** Delete a webhook endpoint. */
  deleteWebhookEndpoint: {
    query: undefined
    body: undefined
    answer: { success: true; deleted_id: number }
  }
  /** Read performance by group. */
  performanceByGroup: {
    query: {
      /** By what; absent: the whole alone. Of a referrer it is the host, of a page its address without the query. Of each day the 200 values that come first are kept apart for a browser and all that follows it here. */
      group_by?:
        | 'partner'
        | 'link'
        | 'code'
        | 'country'
        | 'device'
        | 'browser'
        | 'referrer'
        | 'page'
        | 'utm_source'
        | 'utm_medium'
        | 'utm_campaign'
        | 'utm_term'
        | 'utm_content'
        | 'sub1'
        | 'sub2'
        | 'sub3'
        | undefined
      /** First day in the time zone, YYYY-MM-DD; 30 days up to `to` where it is absent. */
      from?: string | undefined
      /** Last day, included; today where it is absent. At most 1100 days. */
      to?: string | undefined
      /** Name of the IANA’s list. Default `UTC`. */
      time_zone?: string | undefined
      /** Cuts every group, and the whole: up to 31 days into hours, 366 into days. Groups in hours are at most 20000, `limit` times the hours of the range. Weeks begin on Mondays. */
      interval?: 'hour' | 'day' | 'week' | 'month' | undefined
      /** With commas: `clicks`, `bot_clicks`, `leads`, `conversions`, `sales`, `revenue_cents`, `refunded_cents`, `commission_cents`, `conversion_rate`, `average_order_cents`. Default `clicks`, `leads`, `conversions`, `sales`, `revenue_cents`, `commission_cents`. */
      metrics?: string | undefined
      /** The metric by which groups are ordered. Default: the first one. */
      sort?:
        | 'clicks'
        | 'bot_clicks'
        | 'leads'
        | 'conversions'
        | 'sales'
        | 'revenue_cents'
        | 'refunded_cents'
        | 'commission_cents'
        | 'conversion_rate'
        | 'average_order_cents'
        | undefined
      /** The most or the least first. */
      order?: 'desc' | 'asc' | undefined
      /** How many groups at most. */
      limit?: number | undefined
      /** Of the money and of `sales`; the program’s own where it is absent. Nothing is converted. */
      currency?: string | undefined
    }
    body: undefined
    answer: {
      success: true
      group_by:
        | 'partner'
        | 'link'
        | 'code'
        | 'country'
        | 'device'
        | 'browser'
        | 'referrer'
        | 'page'
        | 'utm_source'
        | 'utm_medium'
        | 'utm_campaign'
        | 'utm_term'
        | 'utm_content'
        | 'sub1'
        | 'sub2'
        | 'sub3'
        | null
      from: string
      to: string
      time_zone: string
      interval: 'hour' | 'day' | 'week' | 'month' | null
      currency: string
      total: {
        clicks?: number | undefined
        bot_clicks?: number | undefined
        leads?: number | undefined
        conversions?: number | undefined
        sales?: number | undefined
        revenue_cents?: number | undefined
        refunded_cents?: number | undefined
        commission_cents?: number | undefined
        conversion_rate?: number | undefined
        average_order_cents?: number | undefined
        intervals?:
          | {
              start: string
              clicks?: number | undefined
              bot_clicks?: number | undefined
              leads?: number | undefined
              conversions?: number | undefined
              sales?: number | undefined
              revenue_cents?: number | undefined
              refunded_cents?: number | undefined
              commission_cents?: number | undefined
              conversion_rate?: number | undefined
              average_order_cents?: number | undefined
            }[]
          | undefined
      }
      data: {
        value: string | null
        label?: string | undefined
        is_rest?: true | undefined
        clicks?: number | undefined
        bot_clicks?: number | undefined
        leads?: number | undefined
        conversions?: number | undefined
        sales?: number | undefined
        revenue_cents?: number | undefined
        refunded_cents?: number | undefined
        commission_cents?: number | undefined
        conversion_rate?: number | undefined
        average_order_cents?: number | undefined
        intervals?:
          | {
              start: string
              clicks?: number | undefined
              bot_clicks?: number | undefined
              leads?: number | undefined
              conversions?: number | undefined
              sales?: number | undefined
              revenue_cents?: number | undefined
              refunded_cents?: number | undefined
              commission_cents?: number | undefined
              conversion_rate?: number | undefined
              average_order_cents?: number | undefined
            }[]
          | undefined
      }[]
    }
  }
}
