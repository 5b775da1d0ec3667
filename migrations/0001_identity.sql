-- Who may sign in, and which workspaces they belong to. users, sessions, accounts and verifications are better-auth's four
-- tables under the service's own names (the mapping stands in lib/auth.ts); the rest is ours.

CREATE TABLE users (
  id text PRIMARY KEY,
  name text NOT NULL,
  email text NOT NULL,
  email_verified boolean NOT NULL DEFAULT false,
  image text,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT users_email_key UNIQUE (email),
  CONSTRAINT users_email_lower_case CHECK (email = lower(email))
);

-- A token is only worth something together with its signature (secret AUTH_SECRET), so a copy of this table signs nobody in.
CREATE TABLE sessions (
  id text PRIMARY KEY,
  user_id text NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  token text NOT NULL,
  expires_at timestamptz NOT NULL,
  ip_address text,
  user_agent text,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT sessions_token_key UNIQUE (token)
);
CREATE INDEX sessions_user_id_idx ON sessions (user_id);
CREATE INDEX sessions_expires_at_idx ON sessions (expires_at);

-- One row for each way a user signs in: provider_id is 'credential' (with a password hash) or an OAuth provider.
CREATE TABLE accounts (
  id text PRIMARY KEY,
  user_id text NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  provider_id text NOT NULL,
  account_id text NOT NULL,
  access_token text,
  refresh_token text,
  id_token text,
  access_token_expires_at timestamptz,
  refresh_token_expires_at timestamptz,
  scope text,
  password text,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT accounts_provider_id_account_id_key UNIQUE (provider_id, account_id)
);
CREATE INDEX accounts_user_id_idx ON accounts (user_id);

-- Short-lived secrets: password resets, e-mail confirmations, OAuth states.
CREATE TABLE verifications (
  id text PRIMARY KEY,
  identifier text NOT NULL,
  value text NOT NULL,
  expires_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX verifications_identifier_idx ON verifications (identifier);
CREATE INDEX verifications_expires_at_idx ON verifications (expires_at);

-- Tries at a password, a sign-up or a reset, counted per address and per e-mail in a fixed window.
CREATE TABLE sign_in_attempts (
  key text PRIMARY KEY,
  attempts integer NOT NULL CHECK (attempts > 0),
  window_started_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX sign_in_attempts_window_started_at_idx ON sign_in_attempts (window_started_at);

CREATE TABLE workspaces (
  id text PRIMARY KEY DEFAULT gen_random_uuid()::text,
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
  created_at timestamptz NOT NULL DEFAULT now()
);

-- A removed member keeps the row, so that what they did still has a name; every query for a right asks removed_at IS NULL.
-- What a role may do is the table in lib/access.ts.
CREATE TABLE workspace_members (
  workspace_id text NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  user_id text NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  role text NOT NULL CONSTRAINT workspace_members_role CHECK (role IN ('owner', 'admin', 'member', 'billing', 'guest')),
  created_at timestamptz NOT NULL DEFAULT now(),
  removed_at timestamptz,
  PRIMARY KEY (workspace_id, user_id)
);
CREATE INDEX workspace_members_user_id_idx ON workspace_members (user_id) WHERE removed_at IS NULL;

-- token_hash is the SHA-256 of the token in the invitation's link.
CREATE TABLE workspace_invitations (
  id text PRIMARY KEY DEFAULT gen_random_uuid()::text,
  workspace_id text NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  email text NOT NULL CONSTRAINT workspace_invitations_email_lower_case CHECK (email = lower(email)),
  role text NOT NULL
    CONSTRAINT workspace_invitations_role CHECK (role IN ('owner', 'admin', 'member', 'billing', 'guest')),
  token_hash bytea NOT NULL,
  invited_by text REFERENCES users (id) ON DELETE SET NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL,
  accepted_at timestamptz,
  revoked_at timestamptz,
  CONSTRAINT workspace_invitations_token_hash_key UNIQUE (token_hash),
  CONSTRAINT workspace_invitations_accepted_or_revoked CHECK (accepted_at IS NULL OR revoked_at IS NULL)
);
CREATE UNIQUE INDEX workspace_invitations_open_key ON workspace_invitations (workspace_id, email)
  WHERE accepted_at IS NULL AND revoked_at IS NULL;

-- Mail that was printed instead of sent, because no mail API is configured.
CREATE TABLE mails (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  recipient text NOT NULL,
  subject text NOT NULL,
  body text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX mails_recipient_idx ON mails (recipient, id);
