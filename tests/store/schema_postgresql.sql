-- 0017: The statements that made the tables of 0.1.0.

CREATE TABLE tallymark_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT tallymark_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE leases (
    tenant TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    subject TEXT COLLATE "C" NOT NULL,
    token TEXT COLLATE "C" NOT NULL,
    holder TEXT NOT NULL,
    claimed_at DOUBLE PRECISION NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL,
    CONSTRAINT pk_leases PRIMARY KEY (tenant, kind, subject)
);

CREATE INDEX ix_leases_expiry ON leases (tenant, kind, expires_at);

CREATE TABLE runs (
    tenant TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    suite TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    run_group TEXT COLLATE "C",
    definition_hash TEXT COLLATE "C" NOT NULL,
    epochs INTEGER NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    started_at DOUBLE PRECISION,
    finished_at DOUBLE PRECISION,
    formula TEXT COLLATE "C" NOT NULL,
    score DOUBLE PRECISION,
    score_error TEXT COLLATE "C",
    score_low DOUBLE PRECISION,
    score_high DOUBLE PRECISION,
    metrics TEXT NOT NULL,
    passed INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    errors INTEGER NOT NULL,
    total INTEGER NOT NULL,
    error TEXT COLLATE "C",
    tags TEXT NOT NULL,
    definition TEXT COLLATE "C" NOT NULL,
    CONSTRAINT pk_runs PRIMARY KEY (tenant, id)
);

CREATE INDEX ix_runs_created ON runs (tenant, created_at);

CREATE TABLE vars (
    tenant TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    value TEXT COLLATE "C" NOT NULL,
    CONSTRAINT pk_vars PRIMARY KEY (tenant, name)
);

CREATE TABLE secrets (
    tenant TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    sealed BYTEA NOT NULL,
    CONSTRAINT pk_secrets PRIMARY KEY (tenant, name)
);

CREATE TABLE row_numbers (
    tenant TEXT COLLATE "C" NOT NULL,
    noun TEXT COLLATE "C" NOT NULL,
    start BIGINT NOT NULL,
    last BIGINT NOT NULL,
    CONSTRAINT pk_row_numbers PRIMARY KEY (tenant, noun)
);

CREATE UNIQUE INDEX ux_row_numbers_start ON row_numbers (noun, start);

CREATE TABLE tenants (
    tenant TEXT COLLATE "C" NOT NULL,
    settings TEXT NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    CONSTRAINT pk_tenants PRIMARY KEY (tenant)
);

CREATE TABLE access_keys (
    id TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    hash TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    owner TEXT COLLATE "C" NOT NULL,
    role TEXT COLLATE "C" NOT NULL,
    agent TEXT COLLATE "C",
    created_at DOUBLE PRECISION NOT NULL,
    expires_at DOUBLE PRECISION,
    revoked_at DOUBLE PRECISION,
    last_used_at DOUBLE PRECISION,
    replaced_by TEXT COLLATE "C",
    CONSTRAINT pk_access_keys PRIMARY KEY (id)
);

CREATE UNIQUE INDEX ux_access_keys_hash ON access_keys (hash);

CREATE INDEX ix_access_keys_owner ON access_keys (tenant, owner);

CREATE TABLE invitations (
    id TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    hash TEXT COLLATE "C" NOT NULL,
    role TEXT COLLATE "C" NOT NULL,
    owner TEXT COLLATE "C",
    uses_left INTEGER NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL,
    made_by TEXT COLLATE "C" NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    revoked_at DOUBLE PRECISION,
    CONSTRAINT pk_invitations PRIMARY KEY (id)
);

CREATE INDEX ix_invitations_tenant ON invitations (tenant, created_at);

CREATE UNIQUE INDEX ux_invitations_hash ON invitations (hash);

CREATE TABLE registrations (
    id BIGSERIAL NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (id)
);

CREATE INDEX ix_registrations_address ON registrations (tenant, address, at);

CREATE TABLE sessions (
    hash TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    csrf TEXT COLLATE "C" NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL,
    CONSTRAINT pk_sessions PRIMARY KEY (hash)
);

CREATE INDEX ix_sessions_key ON sessions (key_id);

CREATE TABLE idempotent_answers (
    tenant TEXT COLLATE "C" NOT NULL,
    caller TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    token TEXT COLLATE "C" NOT NULL,
    status INTEGER,
    headers TEXT,
    body BYTEA,
    CONSTRAINT pk_idempotent_answers PRIMARY KEY (tenant, caller, key)
);

CREATE INDEX ix_idempotent_answers_age ON idempotent_answers (tenant, at);

CREATE TABLE scorings (
    id BIGSERIAL NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    challenge_id BIGINT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    why TEXT COLLATE "C" NOT NULL,
    origin TEXT,
    PRIMARY KEY (id)
);

CREATE INDEX ix_scorings_challenge ON scorings (challenge_id, id);

CREATE TABLE score_history (
    scoring BIGINT NOT NULL,
    agent TEXT COLLATE "C" NOT NULL,
    attempt BIGINT NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    score DOUBLE PRECISION,
    result TEXT COLLATE "C",
    error TEXT COLLATE "C",
    CONSTRAINT pk_score_history PRIMARY KEY (scoring, agent, attempt)
);

CREATE TABLE challenges (
    id BIGSERIAL NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    published_at DOUBLE PRECISION NOT NULL,
    revision INTEGER NOT NULL,
    frozen_at DOUBLE PRECISION,
    definition TEXT COLLATE "C" NOT NULL,
    closed_at DOUBLE PRECISION,
    held_at DOUBLE PRECISION,
    unfrozen_at DOUBLE PRECISION,
    visibility TEXT COLLATE "C",
    one_per TEXT COLLATE "C",
    PRIMARY KEY (id)
);

CREATE UNIQUE INDEX ux_challenges_name ON challenges (tenant, name);

CREATE TABLE boards (
    challenge_id BIGINT NOT NULL,
    frozen BOOLEAN NOT NULL,
    agent TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    place DOUBLE PRECISION NOT NULL,
    submitted_at DOUBLE PRECISION NOT NULL,
    attempt BIGINT NOT NULL,
    value DOUBLE PRECISION,
    score DOUBLE PRECISION,
    tries INTEGER NOT NULL,
    CONSTRAINT pk_boards PRIMARY KEY (challenge_id, frozen, agent)
);

CREATE INDEX ix_boards_order ON boards (challenge_id, frozen, place, submitted_at, attempt) INCLUDE (agent);

ALTER TABLE boards DROP CONSTRAINT pk_boards,
        ADD CONSTRAINT pk_boards PRIMARY KEY (challenge_id, frozen, agent),
        ALTER COLUMN challenge_id SET STATISTICS 0, ALTER COLUMN frozen SET STATISTICS 0;

CREATE TABLE ratings (
    tenant TEXT COLLATE "C" NOT NULL,
    agent TEXT COLLATE "C" NOT NULL,
    rating INTEGER NOT NULL,
    matches INTEGER NOT NULL,
    wins INTEGER NOT NULL,
    draws INTEGER NOT NULL,
    losses INTEGER NOT NULL,
    CONSTRAINT pk_ratings PRIMARY KEY (tenant, agent)
);

CREATE INDEX ix_ratings_order ON ratings (tenant, rating);

CREATE TABLE rating_pairs (
    tenant TEXT COLLATE "C" NOT NULL,
    agent TEXT COLLATE "C" NOT NULL,
    challenge_id BIGINT NOT NULL,
    wins INTEGER NOT NULL,
    draws INTEGER NOT NULL,
    losses INTEGER NOT NULL,
    CONSTRAINT pk_rating_pairs PRIMARY KEY (tenant, agent, challenge_id)
);

CREATE TABLE plugin_pauses (
    challenge_id BIGINT NOT NULL,
    code_hash TEXT COLLATE "C" NOT NULL,
    agent TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    plugin TEXT COLLATE "C" NOT NULL,
    deadly INTEGER NOT NULL,
    since DOUBLE PRECISION,
    reason TEXT COLLATE "C" NOT NULL,
    CONSTRAINT pk_plugin_pauses PRIMARY KEY (challenge_id, code_hash, agent)
);

CREATE TABLE disqualified_agents (
    tenant TEXT COLLATE "C" NOT NULL,
    agent TEXT COLLATE "C" NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    CONSTRAINT pk_disqualified_agents PRIMARY KEY (tenant, agent)
);

CREATE TABLE contest_audit (
    seq BIGSERIAL NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    challenge_id BIGINT NOT NULL,
    attempt BIGINT,
    at DOUBLE PRECISION NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    event TEXT COLLATE "C" NOT NULL,
    before TEXT COLLATE "C",
    after TEXT COLLATE "C",
    note TEXT,
    address TEXT COLLATE "C",
    PRIMARY KEY (seq)
);

CREATE INDEX ix_contest_audit ON contest_audit (challenge_id, attempt);

CREATE INDEX ix_contest_audit_acts ON contest_audit (tenant, seq) WHERE contest_audit.attempt IS NULL OR contest_audit.event IN ('voided', 'unvoided');

CREATE INDEX ix_contest_audit_order ON contest_audit (challenge_id, seq);

CREATE TABLE agents (
    tenant TEXT COLLATE "C" NOT NULL,
    handle TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    handle_look TEXT COLLATE "C" NOT NULL,
    name_look TEXT COLLATE "C" NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    owner TEXT COLLATE "C",
    CONSTRAINT pk_agents PRIMARY KEY (tenant, handle)
);

CREATE UNIQUE INDEX ux_agents_name_look ON agents (tenant, name_look);

CREATE INDEX ix_agents_owner ON agents (tenant, owner);

CREATE UNIQUE INDEX ux_agents_handle_look ON agents (tenant, handle_look);

CREATE TABLE tracks (
    tenant TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    definition TEXT COLLATE "C" NOT NULL,
    CONSTRAINT pk_tracks PRIMARY KEY (tenant, name)
);

CREATE TABLE judge_answers (
    tenant TEXT COLLATE "C" NOT NULL,
    question TEXT COLLATE "C" NOT NULL,
    answer TEXT NOT NULL,
    model TEXT COLLATE "C",
    at DOUBLE PRECISION NOT NULL,
    CONSTRAINT pk_judge_answers PRIMARY KEY (tenant, question)
);

CREATE TABLE idempotency (
    tenant TEXT COLLATE "C" NOT NULL,
    agent TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    attempt BIGINT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    CONSTRAINT pk_idempotency PRIMARY KEY (tenant, agent, key)
);

CREATE TABLE work_blocks (
    tenant TEXT COLLATE "C" NOT NULL,
    work TEXT COLLATE "C" NOT NULL,
    block TEXT COLLATE "C" NOT NULL,
    result BYTEA NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    CONSTRAINT pk_work_blocks PRIMARY KEY (tenant, work, block)
);

CREATE INDEX ix_work_blocks_age ON work_blocks (tenant, at);

CREATE TABLE jobs (
    number BIGSERIAL NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    owner TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    subject TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    takeovers INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    not_before DOUBLE PRECISION NOT NULL,
    started_at DOUBLE PRECISION,
    finished_at DOUBLE PRECISION,
    cancel_at DOUBLE PRECISION,
    token TEXT COLLATE "C",
    holder TEXT,
    expires_at DOUBLE PRECISION,
    error TEXT COLLATE "C",
    payload TEXT NOT NULL,
    result TEXT,
    PRIMARY KEY (number)
);

CREATE INDEX ix_jobs_tenant ON jobs (tenant, number);

CREATE UNIQUE INDEX ux_jobs_subject ON jobs (tenant, kind, subject) WHERE state IN ('queued', 'running', 'set_aside');

CREATE UNIQUE INDEX ux_jobs_id ON jobs (id);

CREATE INDEX ix_jobs_live ON jobs (tenant, owner, state, kind, not_before, number) WHERE state IN ('queued', 'running');

CREATE TABLE rules (
    id BIGSERIAL NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    version INTEGER NOT NULL,
    owner TEXT COLLATE "C" NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    changed_at DOUBLE PRECISION NOT NULL,
    trouble TEXT COLLATE "C",
    failures INTEGER NOT NULL,
    again_at DOUBLE PRECISION,
    PRIMARY KEY (id)
);

CREATE UNIQUE INDEX ux_rules_name ON rules (tenant, name) WHERE state <> 'deleted';

CREATE TABLE rule_versions (
    id BIGSERIAL NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    rule BIGINT NOT NULL,
    number INTEGER NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    author TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    definition TEXT NOT NULL,
    PRIMARY KEY (id)
);

CREATE UNIQUE INDEX ux_rule_versions ON rule_versions (rule, number);

CREATE TABLE trace_scores (
    trace BIGINT NOT NULL,
    version INTEGER NOT NULL,
    rule_version BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    author TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    rule BIGINT NOT NULL,
    value DOUBLE PRECISION,
    label TEXT COLLATE "C",
    reason TEXT COLLATE "C",
    error TEXT COLLATE "C",
    metadata TEXT,
    at DOUBLE PRECISION NOT NULL,
    cost DOUBLE PRECISION,
    started_at DOUBLE PRECISION NOT NULL,
    is_current BOOLEAN NOT NULL,
    CONSTRAINT pk_trace_scores PRIMARY KEY (trace, version, rule_version, name, author)
);

CREATE INDEX ix_trace_scores_value ON trace_scores (tenant, name, value, trace) WHERE is_current;

CREATE INDEX ix_trace_scores_time ON trace_scores (tenant, name, started_at, value, trace) WHERE is_current;

CREATE INDEX ix_trace_scores_people ON trace_scores (tenant, name, value, trace) WHERE is_current AND author <> '';

CREATE TABLE trace_decisions (
    trace BIGINT NOT NULL,
    version INTEGER NOT NULL,
    rule_version BIGINT NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    rule BIGINT NOT NULL,
    decision TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    due_at DOUBLE PRECISION,
    tries INTEGER NOT NULL,
    backfill BIGINT NOT NULL,
    day TEXT COLLATE "C",
    reserved DOUBLE PRECISION,
    cost DOUBLE PRECISION,
    CONSTRAINT pk_trace_decisions PRIMARY KEY (trace, version, rule_version)
);

CREATE INDEX ix_trace_decisions_rule ON trace_decisions (rule, at);

CREATE INDEX ix_trace_decisions_waiting ON trace_decisions (rule, backfill, due_at) WHERE decision = 'waiting';

CREATE TABLE rule_days (
    rule BIGINT NOT NULL,
    day TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    scored INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    filtered INTEGER NOT NULL,
    not_drawn INTEGER NOT NULL,
    capped INTEGER NOT NULL,
    spent DOUBLE PRECISION NOT NULL,
    reserved_count INTEGER NOT NULL,
    reserved_cost DOUBLE PRECISION NOT NULL,
    CONSTRAINT pk_rule_days PRIMARY KEY (rule, day)
);

CREATE TABLE rule_backfills (
    id BIGSERIAL NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    rule BIGINT NOT NULL,
    rule_version BIGINT NOT NULL,
    author TEXT COLLATE "C" NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    since DOUBLE PRECISION NOT NULL,
    until DOUBLE PRECISION NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    job TEXT COLLATE "C" NOT NULL,
    expected INTEGER NOT NULL,
    expected_cost DOUBLE PRECISION,
    last_key BIGINT NOT NULL,
    queued INTEGER NOT NULL,
    scored INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    filtered INTEGER NOT NULL,
    not_drawn INTEGER NOT NULL,
    capped INTEGER NOT NULL,
    spent DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (id)
);

CREATE INDEX ix_rule_backfills_rule ON rule_backfills (rule, id);

CREATE TABLE traces (
    key BIGSERIAL NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    trace_id TEXT COLLATE "C" NOT NULL,
    version INTEGER NOT NULL,
    segments INTEGER NOT NULL,
    first_at DOUBLE PRECISION NOT NULL,
    last_at DOUBLE PRECISION NOT NULL,
    due_at DOUBLE PRECISION,
    settled_at DOUBLE PRECISION,
    undecided BOOLEAN NOT NULL,
    started_at DOUBLE PRECISION NOT NULL,
    duration DOUBLE PRECISION NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    has_root BOOLEAN NOT NULL,
    spans INTEGER NOT NULL,
    errors INTEGER NOT NULL,
    model_calls INTEGER NOT NULL,
    tool_calls INTEGER NOT NULL,
    input_tokens BIGINT,
    output_tokens BIGINT,
    tokens BIGINT,
    cost DOUBLE PRECISION,
    name TEXT COLLATE "C" NOT NULL,
    service TEXT COLLATE "C",
    service_version TEXT COLLATE "C",
    session TEXT COLLATE "C",
    user_name TEXT COLLATE "C",
    models TEXT NOT NULL,
    tools TEXT NOT NULL,
    tags TEXT NOT NULL,
    labels TEXT NOT NULL,
    error TEXT COLLATE "C",
    asked TEXT COLLATE "C",
    answered TEXT COLLATE "C",
    lost TEXT,
    bytes BIGINT NOT NULL,
    PRIMARY KEY (key)
);

CREATE UNIQUE INDEX ux_traces_id ON traces (tenant, trace_id);

CREATE INDEX ix_traces_errors ON traces (tenant, started_at, key) WHERE status = 'error';

CREATE INDEX ix_traces_cost ON traces (tenant, cost) WHERE cost IS NOT NULL;

CREATE INDEX ix_traces_started ON traces (tenant, started_at, key);

CREATE INDEX ix_traces_duration ON traces (tenant, duration);

CREATE INDEX ix_traces_tokens ON traces (tenant, tokens) WHERE tokens IS NOT NULL;

CREATE INDEX ix_traces_undecided ON traces (tenant, key) WHERE undecided;

CREATE INDEX ix_traces_first ON traces (tenant, first_at);

CREATE INDEX ix_traces_due ON traces (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE trace_segments (
    trace BIGINT NOT NULL,
    number INTEGER NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    version INTEGER NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    format TEXT COLLATE "C" NOT NULL,
    spans INTEGER NOT NULL,
    body BYTEA NOT NULL,
    CONSTRAINT pk_trace_segments PRIMARY KEY (trace, number)
);

CREATE TABLE trace_versions (
    trace BIGINT NOT NULL,
    version INTEGER NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    settled_at DOUBLE PRECISION NOT NULL,
    spans INTEGER NOT NULL,
    CONSTRAINT pk_trace_versions PRIMARY KEY (trace, version)
);

CREATE TABLE labels (
    id BIGSERIAL NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    value TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (id)
);

CREATE UNIQUE INDEX ux_labels ON labels (tenant, kind, value);

CREATE TABLE trace_labels (
    label BIGINT NOT NULL,
    started_at DOUBLE PRECISION NOT NULL,
    trace BIGINT NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    CONSTRAINT pk_trace_labels PRIMARY KEY (label, started_at, trace)
);

CREATE TABLE attempt_spans (
    attempt BIGINT NOT NULL,
    number INTEGER NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    spans INTEGER NOT NULL,
    body BYTEA NOT NULL,
    bytes BIGINT DEFAULT '0' NOT NULL,
    CONSTRAINT pk_attempt_spans PRIMARY KEY (attempt, number)
);

CREATE TABLE agent_bytes (
    tenant TEXT COLLATE "C" NOT NULL,
    agent TEXT COLLATE "C" NOT NULL,
    day TEXT COLLATE "C" NOT NULL,
    bytes BIGINT NOT NULL,
    CONSTRAINT pk_agent_bytes PRIMARY KEY (tenant, agent)
);

CREATE TABLE witness_secrets (
    tenant TEXT COLLATE "C" NOT NULL,
    secret BYTEA NOT NULL,
    PRIMARY KEY (tenant)
);

CREATE TABLE webhooks (
    tenant TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    url TEXT COLLATE "C" NOT NULL,
    events TEXT NOT NULL,
    challenge TEXT COLLATE "C",
    suite TEXT COLLATE "C",
    state TEXT COLLATE "C" NOT NULL,
    made_by TEXT COLLATE "C" NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    sealed BYTEA NOT NULL,
    CONSTRAINT pk_webhooks PRIMARY KEY (tenant, id)
);

CREATE TABLE webhook_marks (
    challenge_id BIGSERIAL NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    revision INTEGER NOT NULL,
    record TEXT,
    CONSTRAINT pk_webhook_marks PRIMARY KEY (challenge_id)
);

CREATE TABLE case_results (
    tenant TEXT COLLATE "C" NOT NULL,
    run_id TEXT COLLATE "C" NOT NULL,
    case_name TEXT COLLATE "C" NOT NULL,
    epoch INTEGER NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    latency DOUBLE PRECISION,
    cost DOUBLE PRECISION,
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
    id BIGSERIAL NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    challenge_id BIGINT NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    published_at DOUBLE PRECISION NOT NULL,
    definition TEXT COLLATE "C" NOT NULL,
    packed BYTEA NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(challenge_id) REFERENCES challenges (id)
);

CREATE UNIQUE INDEX ux_challenge_versions ON challenge_versions (challenge_id, version);

CREATE TABLE versus_submissions (
    id BIGSERIAL NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    challenge_id BIGINT NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    player TEXT COLLATE "C" NOT NULL,
    side TEXT COLLATE "C" NOT NULL,
    number INTEGER NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    content TEXT NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(challenge_id) REFERENCES challenges (id)
);

CREATE UNIQUE INDEX ux_versus_submissions ON versus_submissions (challenge_id, side, player, number);

CREATE TABLE reviews (
    id BIGSERIAL NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    run_id TEXT COLLATE "C" NOT NULL,
    case_name TEXT COLLATE "C" NOT NULL,
    epoch INTEGER NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    author TEXT COLLATE "C" NOT NULL,
    value DOUBLE PRECISION,
    label TEXT COLLATE "C",
    comment TEXT COLLATE "C" NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    changed_at DOUBLE PRECISION NOT NULL,
    withdrawn_at DOUBLE PRECISION,
    PRIMARY KEY (id),
    CONSTRAINT fk_reviews_run FOREIGN KEY(tenant, run_id) REFERENCES runs (tenant, id) ON DELETE CASCADE
);

CREATE INDEX ix_reviews_case ON reviews (tenant, run_id, case_name, epoch);

CREATE INDEX ix_reviews_order ON reviews (tenant, id);

CREATE UNIQUE INDEX ux_reviews_author ON reviews (tenant, run_id, case_name, epoch, name, author) WHERE withdrawn_at IS NULL AND name <> 'comment';

CREATE TABLE webhook_deliveries (
    number BIGSERIAL NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    webhook TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    event TEXT COLLATE "C" NOT NULL,
    occasion TEXT COLLATE "C" NOT NULL,
    body TEXT COLLATE "C" NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    tries INTEGER NOT NULL,
    tried_at DOUBLE PRECISION,
    status INTEGER,
    error TEXT COLLATE "C",
    PRIMARY KEY (number),
    CONSTRAINT fk_webhook_deliveries FOREIGN KEY(tenant, webhook) REFERENCES webhooks (tenant, id) ON DELETE CASCADE
);

CREATE UNIQUE INDEX ux_webhook_deliveries_id ON webhook_deliveries (tenant, id);

CREATE UNIQUE INDEX ux_webhook_deliveries_occasion ON webhook_deliveries (tenant, webhook, occasion);

CREATE INDEX ix_webhook_deliveries_order ON webhook_deliveries (tenant, webhook, number);

CREATE TABLE attempts (
    key BIGSERIAL NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    challenge_id BIGINT NOT NULL,
    version_id BIGINT NOT NULL,
    agent TEXT COLLATE "C" NOT NULL,
    number INTEGER NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    seed BIGINT NOT NULL,
    entered_at DOUBLE PRECISION NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL,
    submitted_at DOUBLE PRECISION,
    scored_at DOUBLE PRECISION,
    verified BOOLEAN NOT NULL,
    memoryless BOOLEAN NOT NULL,
    trajectory_level TEXT COLLATE "C" DEFAULT 'none' NOT NULL,
    match_at DOUBLE PRECISION,
    voided_at DOUBLE PRECISION,
    PRIMARY KEY (key),
    FOREIGN KEY(challenge_id) REFERENCES challenges (id),
    FOREIGN KEY(version_id) REFERENCES challenge_versions (id)
);

CREATE INDEX ix_attempts_voided ON attempts (challenge_id, agent) WHERE voided_at IS NOT NULL;

CREATE UNIQUE INDEX ux_attempts_number ON attempts (challenge_id, agent, number);

CREATE INDEX ix_attempts_newest ON attempts (challenge_id, key);

CREATE UNIQUE INDEX ux_attempts_open ON attempts (challenge_id, agent) WHERE state = 'entered';

CREATE INDEX ix_attempts_matches ON attempts (tenant, agent, match_at, key) WHERE match_at IS NOT NULL;

CREATE INDEX ix_attempts_unfinished ON attempts (tenant, state, expires_at) WHERE state IN ('entered', 'submitted');

CREATE TABLE versus_verdicts (
    red BIGINT NOT NULL,
    blue BIGINT NOT NULL,
    category TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    challenge_id BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    breached BOOLEAN,
    reason TEXT COLLATE "C" NOT NULL,
    error TEXT COLLATE "C",
    judge TEXT COLLATE "C" NOT NULL,
    tries INTEGER NOT NULL,
    judged_at DOUBLE PRECISION,
    CONSTRAINT pk_versus_verdicts PRIMARY KEY (red, blue, category),
    FOREIGN KEY(red) REFERENCES versus_submissions (id),
    FOREIGN KEY(blue) REFERENCES versus_submissions (id)
);

CREATE INDEX ix_versus_verdicts_blue ON versus_verdicts (blue);

CREATE INDEX ix_versus_verdicts_unjudged ON versus_verdicts (challenge_id, red, blue) WHERE state <> 'judged';

CREATE TABLE attempt_scores (
    challenge_id BIGINT NOT NULL,
    agent TEXT COLLATE "C" NOT NULL,
    attempt BIGINT NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    scoring BIGINT NOT NULL,
    score DOUBLE PRECISION,
    ranks BOOLEAN NOT NULL,
    submitted_at DOUBLE PRECISION NOT NULL,
    number INTEGER NOT NULL,
    succeeded BOOLEAN NOT NULL,
    tokens_total BIGINT,
    elapsed_ms BIGINT,
    rating DOUBLE PRECISION,
    created_at BIGINT,
    cost DOUBLE PRECISION,
    calls BIGINT,
    result TEXT COLLATE "C",
    error TEXT COLLATE "C",
    more TEXT,
    dimensions TEXT,
    CONSTRAINT pk_attempt_scores PRIMARY KEY (challenge_id, agent, submitted_at, attempt),
    FOREIGN KEY(attempt) REFERENCES attempts (key)
)
 WITH (fillfactor = 50);

CREATE TABLE attempt_details (
    attempt BIGINT NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C",
    submission TEXT,
    metadata TEXT,
    reported TEXT,
    details TEXT,
    evaluation TEXT,
    steps_digest TEXT COLLATE "C",
    packed_trajectory BYTEA,
    PRIMARY KEY (attempt),
    FOREIGN KEY(attempt) REFERENCES attempts (key)
);

CREATE INDEX ix_attempt_details_steps ON attempt_details (tenant, steps_digest) WHERE steps_digest IS NOT NULL;

CREATE TABLE attempt_waits (
    attempt BIGINT NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (attempt),
    FOREIGN KEY(attempt) REFERENCES attempts (key)
);

CREATE FUNCTION contest_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'contest_audit is only ever added to'; END $$;

CREATE TRIGGER contest_audit_refuse BEFORE UPDATE OR DELETE OR TRUNCATE ON contest_audit FOR EACH STATEMENT EXECUTE FUNCTION contest_audit_refuse();

CREATE FUNCTION score_history_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'score_history is only ever added to'; END $$;

CREATE TRIGGER score_history_refuse BEFORE UPDATE OR DELETE OR TRUNCATE ON score_history FOR EACH STATEMENT EXECUTE FUNCTION score_history_refuse()
