-- 0017: The statements that made the tables of 0.1.0.

PRAGMA journal_mode = WAL;

CREATE TABLE tallymark_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT tallymark_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE leases (
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    token TEXT NOT NULL,
    holder TEXT NOT NULL,
    claimed_at DOUBLE NOT NULL,
    expires_at DOUBLE NOT NULL,
    CONSTRAINT pk_leases PRIMARY KEY (tenant, kind, subject)
);

CREATE INDEX ix_leases_expiry ON leases (tenant, kind, expires_at);

CREATE TABLE runs (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    suite TEXT NOT NULL,
    model TEXT NOT NULL,
    status TEXT NOT NULL,
    run_group TEXT,
    definition_hash TEXT NOT NULL,
    epochs INTEGER NOT NULL,
    created_at DOUBLE NOT NULL,
    started_at DOUBLE,
    finished_at DOUBLE,
    formula TEXT NOT NULL,
    score DOUBLE,
    score_error TEXT,
    score_low DOUBLE,
    score_high DOUBLE,
    metrics TEXT NOT NULL,
    passed INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    errors INTEGER NOT NULL,
    total INTEGER NOT NULL,
    error TEXT,
    tags TEXT NOT NULL,
    definition TEXT NOT NULL,
    CONSTRAINT pk_runs PRIMARY KEY (tenant, id)
);

CREATE INDEX ix_runs_created ON runs (tenant, created_at);

CREATE TABLE vars (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    CONSTRAINT pk_vars PRIMARY KEY (tenant, name)
);

CREATE TABLE secrets (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    key_id TEXT NOT NULL,
    sealed BLOB NOT NULL,
    CONSTRAINT pk_secrets PRIMARY KEY (tenant, name)
);

CREATE TABLE row_numbers (
    tenant TEXT NOT NULL,
    noun TEXT NOT NULL,
    start BIGINT NOT NULL,
    last BIGINT NOT NULL,
    CONSTRAINT pk_row_numbers PRIMARY KEY (tenant, noun)
)
 WITHOUT ROWID;

CREATE UNIQUE INDEX ux_row_numbers_start ON row_numbers (noun, start);

CREATE TABLE tenants (
    tenant TEXT NOT NULL,
    settings TEXT NOT NULL,
    created_at DOUBLE NOT NULL,
    CONSTRAINT pk_tenants PRIMARY KEY (tenant)
);

CREATE TABLE access_keys (
    id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    hash TEXT NOT NULL,
    name TEXT NOT NULL,
    owner TEXT NOT NULL,
    role TEXT NOT NULL,
    agent TEXT,
    created_at DOUBLE NOT NULL,
    expires_at DOUBLE,
    revoked_at DOUBLE,
    last_used_at DOUBLE,
    replaced_by TEXT,
    CONSTRAINT pk_access_keys PRIMARY KEY (id)
);

CREATE UNIQUE INDEX ux_access_keys_hash ON access_keys (hash);

CREATE INDEX ix_access_keys_owner ON access_keys (tenant, owner);

CREATE TABLE invitations (
    id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    hash TEXT NOT NULL,
    role TEXT NOT NULL,
    owner TEXT,
    uses_left INTEGER NOT NULL,
    expires_at DOUBLE NOT NULL,
    made_by TEXT NOT NULL,
    created_at DOUBLE NOT NULL,
    revoked_at DOUBLE,
    CONSTRAINT pk_invitations PRIMARY KEY (id)
);

CREATE INDEX ix_invitations_tenant ON invitations (tenant, created_at);

CREATE UNIQUE INDEX ux_invitations_hash ON invitations (hash);

CREATE TABLE registrations (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    address TEXT NOT NULL,
    at DOUBLE NOT NULL
);

CREATE INDEX ix_registrations_address ON registrations (tenant, address, at);

CREATE TABLE sessions (
    hash TEXT NOT NULL,
    tenant TEXT NOT NULL,
    key_id TEXT NOT NULL,
    csrf TEXT NOT NULL,
    created_at DOUBLE NOT NULL,
    expires_at DOUBLE NOT NULL,
    CONSTRAINT pk_sessions PRIMARY KEY (hash)
);

CREATE INDEX ix_sessions_key ON sessions (key_id);

CREATE TABLE idempotent_answers (
    tenant TEXT NOT NULL,
    caller TEXT NOT NULL,
    "key" TEXT NOT NULL,
    digest TEXT NOT NULL,
    at DOUBLE NOT NULL,
    token TEXT NOT NULL,
    status INTEGER,
    headers TEXT,
    body BLOB,
    CONSTRAINT pk_idempotent_answers PRIMARY KEY (tenant, caller, "key")
);

CREATE INDEX ix_idempotent_answers_age ON idempotent_answers (tenant, at);

CREATE TABLE scorings (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    challenge_id INTEGER NOT NULL,
    at DOUBLE NOT NULL,
    why TEXT NOT NULL,
    origin TEXT
);

CREATE INDEX ix_scorings_challenge ON scorings (challenge_id, id);

CREATE TABLE score_history (
    scoring INTEGER NOT NULL,
    agent TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    at DOUBLE NOT NULL,
    score DOUBLE,
    result TEXT,
    error TEXT,
    CONSTRAINT pk_score_history PRIMARY KEY (scoring, agent, attempt)
)
 WITHOUT ROWID;

CREATE TABLE challenges (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    published_at DOUBLE NOT NULL,
    revision INTEGER NOT NULL,
    frozen_at DOUBLE,
    definition TEXT NOT NULL,
    closed_at DOUBLE,
    held_at DOUBLE,
    unfrozen_at DOUBLE,
    visibility TEXT,
    one_per TEXT
);

CREATE UNIQUE INDEX ux_challenges_name ON challenges (tenant, name);

CREATE TABLE boards (
    challenge_id INTEGER NOT NULL,
    frozen BOOLEAN NOT NULL,
    agent TEXT NOT NULL,
    tenant TEXT NOT NULL,
    place DOUBLE NOT NULL,
    submitted_at DOUBLE NOT NULL,
    attempt INTEGER NOT NULL,
    value DOUBLE,
    score DOUBLE,
    tries INTEGER NOT NULL,
    CONSTRAINT pk_boards PRIMARY KEY (challenge_id, frozen, agent)
)
 WITHOUT ROWID;

CREATE INDEX ix_boards_order ON boards (challenge_id, frozen, place, submitted_at, attempt);

CREATE TABLE ratings (
    tenant TEXT NOT NULL,
    agent TEXT NOT NULL,
    rating INTEGER NOT NULL,
    matches INTEGER NOT NULL,
    wins INTEGER NOT NULL,
    draws INTEGER NOT NULL,
    losses INTEGER NOT NULL,
    CONSTRAINT pk_ratings PRIMARY KEY (tenant, agent)
);

CREATE INDEX ix_ratings_order ON ratings (tenant, rating);

CREATE TABLE rating_pairs (
    tenant TEXT NOT NULL,
    agent TEXT NOT NULL,
    challenge_id INTEGER NOT NULL,
    wins INTEGER NOT NULL,
    draws INTEGER NOT NULL,
    losses INTEGER NOT NULL,
    CONSTRAINT pk_rating_pairs PRIMARY KEY (tenant, agent, challenge_id)
);

CREATE TABLE plugin_pauses (
    challenge_id INTEGER NOT NULL,
    code_hash TEXT NOT NULL,
    agent TEXT NOT NULL,
    tenant TEXT NOT NULL,
    plugin TEXT NOT NULL,
    deadly INTEGER NOT NULL,
    since DOUBLE,
    reason TEXT NOT NULL,
    CONSTRAINT pk_plugin_pauses PRIMARY KEY (challenge_id, code_hash, agent)
);

CREATE TABLE disqualified_agents (
    tenant TEXT NOT NULL,
    agent TEXT NOT NULL,
    at DOUBLE NOT NULL,
    CONSTRAINT pk_disqualified_agents PRIMARY KEY (tenant, agent)
);

CREATE TABLE contest_audit (
    seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    challenge_id INTEGER NOT NULL,
    attempt INTEGER,
    at DOUBLE NOT NULL,
    actor TEXT NOT NULL,
    event TEXT NOT NULL,
    "before" TEXT,
    "after" TEXT,
    note TEXT,
    address TEXT
);

CREATE INDEX ix_contest_audit ON contest_audit (challenge_id, attempt);

CREATE INDEX ix_contest_audit_acts ON contest_audit (tenant, seq) WHERE contest_audit.attempt IS NULL OR contest_audit.event IN ('voided', 'unvoided');

CREATE INDEX ix_contest_audit_order ON contest_audit (challenge_id, seq);

CREATE TABLE agents (
    tenant TEXT NOT NULL,
    handle TEXT NOT NULL,
    name TEXT NOT NULL,
    handle_look TEXT NOT NULL,
    name_look TEXT NOT NULL,
    created_at DOUBLE NOT NULL,
    owner TEXT,
    CONSTRAINT pk_agents PRIMARY KEY (tenant, handle)
);

CREATE UNIQUE INDEX ux_agents_name_look ON agents (tenant, name_look);

CREATE INDEX ix_agents_owner ON agents (tenant, owner);

CREATE UNIQUE INDEX ux_agents_handle_look ON agents (tenant, handle_look);

CREATE TABLE tracks (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    at DOUBLE NOT NULL,
    definition TEXT NOT NULL,
    CONSTRAINT pk_tracks PRIMARY KEY (tenant, name)
);

CREATE TABLE judge_answers (
    tenant TEXT NOT NULL,
    question TEXT NOT NULL,
    answer TEXT NOT NULL,
    model TEXT,
    at DOUBLE NOT NULL,
    CONSTRAINT pk_judge_answers PRIMARY KEY (tenant, question)
);

CREATE TABLE idempotency (
    tenant TEXT NOT NULL,
    agent TEXT NOT NULL,
    "key" TEXT NOT NULL,
    digest TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    at DOUBLE NOT NULL,
    CONSTRAINT pk_idempotency PRIMARY KEY (tenant, agent, "key")
);

CREATE TABLE work_blocks (
    tenant TEXT NOT NULL,
    work TEXT NOT NULL,
    block TEXT NOT NULL,
    result BLOB NOT NULL,
    at DOUBLE NOT NULL,
    CONSTRAINT pk_work_blocks PRIMARY KEY (tenant, work, block)
);

CREATE INDEX ix_work_blocks_age ON work_blocks (tenant, at);

CREATE TABLE jobs (
    number INTEGER NOT NULL,
    id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    owner TEXT NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    state TEXT NOT NULL,
    takeovers INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    created_at DOUBLE NOT NULL,
    not_before DOUBLE NOT NULL,
    started_at DOUBLE,
    finished_at DOUBLE,
    cancel_at DOUBLE,
    token TEXT,
    holder TEXT,
    expires_at DOUBLE,
    error TEXT,
    payload TEXT NOT NULL,
    result TEXT,
    PRIMARY KEY (number)
);

CREATE INDEX ix_jobs_tenant ON jobs (tenant, number);

CREATE UNIQUE INDEX ux_jobs_subject ON jobs (tenant, kind, subject) WHERE state IN ('queued', 'running', 'set_aside');

CREATE UNIQUE INDEX ux_jobs_id ON jobs (id);

CREATE INDEX ix_jobs_live ON jobs (tenant, owner, state, kind, not_before, number) WHERE state IN ('queued', 'running');

CREATE TABLE rules (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    version INTEGER NOT NULL,
    owner TEXT NOT NULL,
    created_at DOUBLE NOT NULL,
    changed_at DOUBLE NOT NULL,
    trouble TEXT,
    failures INTEGER NOT NULL,
    again_at DOUBLE
);

CREATE UNIQUE INDEX ux_rules_name ON rules (tenant, name) WHERE state <> 'deleted';

CREATE TABLE rule_versions (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    rule INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at DOUBLE NOT NULL,
    author TEXT NOT NULL,
    digest TEXT NOT NULL,
    definition TEXT NOT NULL
);

CREATE UNIQUE INDEX ux_rule_versions ON rule_versions (rule, number);

CREATE TABLE trace_scores (
    trace INTEGER NOT NULL,
    version INTEGER NOT NULL,
    rule_version INTEGER NOT NULL,
    name TEXT NOT NULL,
    author TEXT NOT NULL,
    tenant TEXT NOT NULL,
    rule INTEGER NOT NULL,
    value DOUBLE,
    label TEXT,
    reason TEXT,
    error TEXT,
    metadata TEXT,
    at DOUBLE NOT NULL,
    cost DOUBLE,
    started_at DOUBLE NOT NULL,
    is_current BOOLEAN NOT NULL,
    CONSTRAINT pk_trace_scores PRIMARY KEY (trace, version, rule_version, name, author)
);

CREATE INDEX ix_trace_scores_value ON trace_scores (tenant, name, value, trace) WHERE is_current;

CREATE INDEX ix_trace_scores_time ON trace_scores (tenant, name, started_at, value, trace) WHERE is_current;

CREATE INDEX ix_trace_scores_people ON trace_scores (tenant, name, value, trace) WHERE is_current AND author <> '';

CREATE TABLE trace_decisions (
    trace INTEGER NOT NULL,
    version INTEGER NOT NULL,
    rule_version INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    rule INTEGER NOT NULL,
    decision TEXT NOT NULL,
    reason TEXT NOT NULL,
    at DOUBLE NOT NULL,
    due_at DOUBLE,
    tries INTEGER NOT NULL,
    backfill INTEGER NOT NULL,
    day TEXT,
    reserved DOUBLE,
    cost DOUBLE,
    CONSTRAINT pk_trace_decisions PRIMARY KEY (trace, version, rule_version)
)
 WITHOUT ROWID;

CREATE INDEX ix_trace_decisions_rule ON trace_decisions (rule, at);

CREATE INDEX ix_trace_decisions_waiting ON trace_decisions (rule, backfill, due_at) WHERE decision = 'waiting';

CREATE TABLE rule_days (
    rule INTEGER NOT NULL,
    day TEXT NOT NULL,
    tenant TEXT NOT NULL,
    scored INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    filtered INTEGER NOT NULL,
    not_drawn INTEGER NOT NULL,
    capped INTEGER NOT NULL,
    spent DOUBLE NOT NULL,
    reserved_count INTEGER NOT NULL,
    reserved_cost DOUBLE NOT NULL,
    CONSTRAINT pk_rule_days PRIMARY KEY (rule, day)
)
 WITHOUT ROWID;

CREATE TABLE rule_backfills (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    rule INTEGER NOT NULL,
    rule_version INTEGER NOT NULL,
    author TEXT NOT NULL,
    at DOUBLE NOT NULL,
    since DOUBLE NOT NULL,
    until DOUBLE NOT NULL,
    state TEXT NOT NULL,
    job TEXT NOT NULL,
    expected INTEGER NOT NULL,
    expected_cost DOUBLE,
    last_key INTEGER NOT NULL,
    queued INTEGER NOT NULL,
    scored INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    filtered INTEGER NOT NULL,
    not_drawn INTEGER NOT NULL,
    capped INTEGER NOT NULL,
    spent DOUBLE NOT NULL
);

CREATE INDEX ix_rule_backfills_rule ON rule_backfills (rule, id);

CREATE TABLE traces (
    "key" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    trace_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    segments INTEGER NOT NULL,
    first_at DOUBLE NOT NULL,
    last_at DOUBLE NOT NULL,
    due_at DOUBLE,
    settled_at DOUBLE,
    undecided BOOLEAN NOT NULL,
    started_at DOUBLE NOT NULL,
    duration DOUBLE NOT NULL,
    status TEXT NOT NULL,
    has_root BOOLEAN NOT NULL,
    spans INTEGER NOT NULL,
    errors INTEGER NOT NULL,
    model_calls INTEGER NOT NULL,
    tool_calls INTEGER NOT NULL,
    input_tokens BIGINT,
    output_tokens BIGINT,
    tokens BIGINT,
    cost DOUBLE,
    name TEXT NOT NULL,
    service TEXT,
    service_version TEXT,
    session TEXT,
    user_name TEXT,
    models TEXT NOT NULL,
    tools TEXT NOT NULL,
    tags TEXT NOT NULL,
    labels TEXT NOT NULL,
    error TEXT,
    asked TEXT,
    answered TEXT,
    lost TEXT,
    bytes BIGINT NOT NULL
);

CREATE UNIQUE INDEX ux_traces_id ON traces (tenant, trace_id);

CREATE INDEX ix_traces_errors ON traces (tenant, started_at, "key") WHERE status = 'error';

CREATE INDEX ix_traces_cost ON traces (tenant, cost) WHERE cost IS NOT NULL;

CREATE INDEX ix_traces_started ON traces (tenant, started_at, "key");

CREATE INDEX ix_traces_duration ON traces (tenant, duration);

CREATE INDEX ix_traces_tokens ON traces (tenant, tokens) WHERE tokens IS NOT NULL;

CREATE INDEX ix_traces_undecided ON traces (tenant, "key") WHERE undecided;

CREATE INDEX ix_traces_first ON traces (tenant, first_at);

CREATE INDEX ix_traces_due ON traces (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE trace_segments (
    trace INTEGER NOT NULL,
    number INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    version INTEGER NOT NULL,
    at DOUBLE NOT NULL,
    format TEXT NOT NULL,
    spans INTEGER NOT NULL,
    body BLOB NOT NULL,
    CONSTRAINT pk_trace_segments PRIMARY KEY (trace, number)
);

CREATE TABLE trace_versions (
    trace INTEGER NOT NULL,
    version INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    settled_at DOUBLE NOT NULL,
    spans INTEGER NOT NULL,
    CONSTRAINT pk_trace_versions PRIMARY KEY (trace, version)
)
 WITHOUT ROWID;

CREATE TABLE labels (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL,
    value TEXT NOT NULL
);

CREATE UNIQUE INDEX ux_labels ON labels (tenant, kind, value);

CREATE TABLE trace_labels (
    label INTEGER NOT NULL,
    started_at DOUBLE NOT NULL,
    trace INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    CONSTRAINT pk_trace_labels PRIMARY KEY (label, started_at, trace)
)
 WITHOUT ROWID;

CREATE TABLE attempt_spans (
    attempt INTEGER NOT NULL,
    number INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    at DOUBLE NOT NULL,
    spans INTEGER NOT NULL,
    body BLOB NOT NULL,
    bytes BIGINT DEFAULT '0' NOT NULL,
    CONSTRAINT pk_attempt_spans PRIMARY KEY (attempt, number)
);

CREATE TABLE agent_bytes (
    tenant TEXT NOT NULL,
    agent TEXT NOT NULL,
    day TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    CONSTRAINT pk_agent_bytes PRIMARY KEY (tenant, agent)
);

CREATE TABLE witness_secrets (
    tenant TEXT NOT NULL,
    secret BLOB NOT NULL,
    PRIMARY KEY (tenant)
);

CREATE TABLE webhooks (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    url TEXT NOT NULL,
    events TEXT NOT NULL,
    challenge TEXT,
    suite TEXT,
    state TEXT NOT NULL,
    made_by TEXT NOT NULL,
    created_at DOUBLE NOT NULL,
    key_id TEXT NOT NULL,
    sealed BLOB NOT NULL,
    CONSTRAINT pk_webhooks PRIMARY KEY (tenant, id)
);

CREATE TABLE webhook_marks (
    challenge_id INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    seq INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    record TEXT,
    CONSTRAINT pk_webhook_marks PRIMARY KEY (challenge_id)
);

CREATE TABLE case_results (
    tenant TEXT NOT NULL,
    run_id TEXT NOT NULL,
    case_name TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    status TEXT NOT NULL,
    latency DOUBLE,
    cost DOUBLE,
    input_tokens BIGINT,
    output_tokens BIGINT,
    detail TEXT NOT NULL,
    trace TEXT,
    seq INTEGER DEFAULT '0' NOT NULL,
    CONSTRAINT pk_case_results PRIMARY KEY (tenant, run_id, case_name, epoch),
    CONSTRAINT fk_case_results_run FOREIGN KEY(tenant, run_id) REFERENCES runs (tenant, id) ON DELETE CASCADE
);

CREATE INDEX ix_case_results_order ON case_results (tenant, run_id, seq);

CREATE TABLE challenge_versions (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    challenge_id INTEGER NOT NULL,
    version TEXT NOT NULL,
    published_at DOUBLE NOT NULL,
    definition TEXT NOT NULL,
    packed BLOB NOT NULL,
    FOREIGN KEY(challenge_id) REFERENCES challenges (id)
);

CREATE UNIQUE INDEX ux_challenge_versions ON challenge_versions (challenge_id, version);

CREATE TABLE versus_submissions (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    challenge_id INTEGER NOT NULL,
    version TEXT NOT NULL,
    player TEXT NOT NULL,
    side TEXT NOT NULL,
    number INTEGER NOT NULL,
    at DOUBLE NOT NULL,
    digest TEXT NOT NULL,
    content TEXT NOT NULL,
    FOREIGN KEY(challenge_id) REFERENCES challenges (id)
);

CREATE UNIQUE INDEX ux_versus_submissions ON versus_submissions (challenge_id, side, player, number);

CREATE TABLE reviews (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    run_id TEXT NOT NULL,
    case_name TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    name TEXT NOT NULL,
    author TEXT NOT NULL,
    value DOUBLE,
    label TEXT,
    comment TEXT NOT NULL,
    created_at DOUBLE NOT NULL,
    changed_at DOUBLE NOT NULL,
    withdrawn_at DOUBLE,
    CONSTRAINT fk_reviews_run FOREIGN KEY(tenant, run_id) REFERENCES runs (tenant, id) ON DELETE CASCADE
);

CREATE INDEX ix_reviews_case ON reviews (tenant, run_id, case_name, epoch);

CREATE INDEX ix_reviews_order ON reviews (tenant, id);

CREATE UNIQUE INDEX ux_reviews_author ON reviews (tenant, run_id, case_name, epoch, name, author) WHERE withdrawn_at IS NULL AND name <> 'comment';

CREATE TABLE webhook_deliveries (
    number INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    webhook TEXT NOT NULL,
    id TEXT NOT NULL,
    event TEXT NOT NULL,
    occasion TEXT NOT NULL,
    body TEXT NOT NULL,
    created_at DOUBLE NOT NULL,
    state TEXT NOT NULL,
    tries INTEGER NOT NULL,
    tried_at DOUBLE,
    status INTEGER,
    error TEXT,
    PRIMARY KEY (number),
    CONSTRAINT fk_webhook_deliveries FOREIGN KEY(tenant, webhook) REFERENCES webhooks (tenant, id) ON DELETE CASCADE
);

CREATE UNIQUE INDEX ux_webhook_deliveries_id ON webhook_deliveries (tenant, id);

CREATE UNIQUE INDEX ux_webhook_deliveries_occasion ON webhook_deliveries (tenant, webhook, occasion);

CREATE INDEX ix_webhook_deliveries_order ON webhook_deliveries (tenant, webhook, number);

CREATE TABLE attempts (
    "key" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    challenge_id INTEGER NOT NULL,
    version_id INTEGER NOT NULL,
    agent TEXT NOT NULL,
    number INTEGER NOT NULL,
    state TEXT NOT NULL,
    seed BIGINT NOT NULL,
    entered_at DOUBLE NOT NULL,
    expires_at DOUBLE NOT NULL,
    submitted_at DOUBLE,
    scored_at DOUBLE,
    verified BOOLEAN NOT NULL,
    memoryless BOOLEAN NOT NULL,
    trajectory_level TEXT DEFAULT 'none' NOT NULL,
    match_at DOUBLE,
    voided_at DOUBLE,
    FOREIGN KEY(challenge_id) REFERENCES challenges (id),
    FOREIGN KEY(version_id) REFERENCES challenge_versions (id)
);

CREATE INDEX ix_attempts_voided ON attempts (challenge_id, agent) WHERE voided_at IS NOT NULL;

CREATE UNIQUE INDEX ux_attempts_number ON attempts (challenge_id, agent, number);

CREATE INDEX ix_attempts_newest ON attempts (challenge_id, "key");

CREATE UNIQUE INDEX ux_attempts_open ON attempts (challenge_id, agent) WHERE state = 'entered';

CREATE INDEX ix_attempts_matches ON attempts (tenant, agent, match_at, "key") WHERE match_at IS NOT NULL;

CREATE INDEX ix_attempts_unfinished ON attempts (tenant, state, expires_at) WHERE state IN ('entered', 'submitted');

CREATE TABLE versus_verdicts (
    red INTEGER NOT NULL,
    blue INTEGER NOT NULL,
    category TEXT NOT NULL,
    tenant TEXT NOT NULL,
    challenge_id INTEGER NOT NULL,
    state TEXT NOT NULL,
    breached BOOLEAN,
    reason TEXT NOT NULL,
    error TEXT,
    judge TEXT NOT NULL,
    tries INTEGER NOT NULL,
    judged_at DOUBLE,
    CONSTRAINT pk_versus_verdicts PRIMARY KEY (red, blue, category),
    FOREIGN KEY(red) REFERENCES versus_submissions (id),
    FOREIGN KEY(blue) REFERENCES versus_submissions (id)
);

CREATE INDEX ix_versus_verdicts_blue ON versus_verdicts (blue);

CREATE INDEX ix_versus_verdicts_unjudged ON versus_verdicts (challenge_id, red, blue) WHERE state <> 'judged';

CREATE TABLE attempt_scores (
    challenge_id INTEGER NOT NULL,
    agent TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    scoring INTEGER NOT NULL,
    score DOUBLE,
    ranks BOOLEAN NOT NULL,
    submitted_at DOUBLE NOT NULL,
    number INTEGER NOT NULL,
    succeeded BOOLEAN NOT NULL,
    tokens_total BIGINT,
    elapsed_ms BIGINT,
    rating DOUBLE,
    created_at BIGINT,
    cost DOUBLE,
    calls BIGINT,
    result TEXT,
    error TEXT,
    more TEXT,
    dimensions TEXT,
    CONSTRAINT pk_attempt_scores PRIMARY KEY (challenge_id, agent, submitted_at, attempt),
    FOREIGN KEY(attempt) REFERENCES attempts ("key")
)
 WITHOUT ROWID;

CREATE TABLE attempt_details (
    attempt INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    digest TEXT,
    submission TEXT,
    metadata TEXT,
    reported TEXT,
    details TEXT,
    evaluation TEXT,
    steps_digest TEXT,
    packed_trajectory BLOB,
    PRIMARY KEY (attempt),
    FOREIGN KEY(attempt) REFERENCES attempts ("key")
);

CREATE INDEX ix_attempt_details_steps ON attempt_details (tenant, steps_digest) WHERE steps_digest IS NOT NULL;

CREATE TABLE attempt_waits (
    attempt INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    at DOUBLE NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (attempt),
    FOREIGN KEY(attempt) REFERENCES attempts ("key")
);

CREATE TRIGGER contest_audit_update BEFORE UPDATE ON contest_audit BEGIN SELECT RAISE(ABORT, 'contest_audit is only ever added to'); END;

CREATE TRIGGER contest_audit_delete BEFORE DELETE ON contest_audit BEGIN SELECT RAISE(ABORT, 'contest_audit is only ever added to'); END;

CREATE TRIGGER score_history_update BEFORE UPDATE ON score_history BEGIN SELECT RAISE(ABORT, 'score_history is only ever added to'); END;

CREATE TRIGGER score_history_delete BEFORE DELETE ON score_history BEGIN SELECT RAISE(ABORT, 'score_history is only ever added to'); END
