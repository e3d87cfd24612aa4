-- 0001: Runs, their case results, variables and secrets.

CREATE TABLE tallymark_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT tallymark_version_pkc PRIMARY KEY (version_num)
);

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
    CONSTRAINT pk_case_results PRIMARY KEY (tenant, run_id, case_name, epoch),
    CONSTRAINT fk_case_results_run FOREIGN KEY(tenant, run_id) REFERENCES runs (tenant, id) ON DELETE CASCADE
);

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

-- 0002: Challenges, attempts, scores, boards, ratings, and the logs that are only ever added to.

CREATE TABLE challenges (
    id BIGSERIAL NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    published_at DOUBLE PRECISION NOT NULL,
    revision INTEGER NOT NULL,
    frozen_at DOUBLE PRECISION,
    definition TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (id)
);

CREATE UNIQUE INDEX ux_challenges_name ON challenges (tenant, name);

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
    PRIMARY KEY (key),
    FOREIGN KEY(challenge_id) REFERENCES challenges (id),
    FOREIGN KEY(version_id) REFERENCES challenge_versions (id)
);

CREATE UNIQUE INDEX ux_attempts_number ON attempts (challenge_id, agent, number);

CREATE INDEX ix_attempts_newest ON attempts (challenge_id, key);

CREATE UNIQUE INDEX ux_attempts_open ON attempts (challenge_id, agent) WHERE state = 'entered';

CREATE INDEX ix_attempts_unfinished ON attempts (tenant, state, expires_at) WHERE state IN ('entered', 'submitted');

CREATE TABLE attempt_details (
    attempt BIGINT NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C",
    submission TEXT,
    metadata TEXT,
    reported TEXT,
    details TEXT,
    evaluation TEXT,
    trajectory TEXT,
    PRIMARY KEY (attempt),
    FOREIGN KEY(attempt) REFERENCES attempts (key)
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
);

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

CREATE INDEX ix_boards_order ON boards (challenge_id, frozen, place, submitted_at, attempt);

CREATE TABLE board_blocks (
    challenge_id BIGINT NOT NULL,
    frozen BOOLEAN NOT NULL,
    place DOUBLE PRECISION NOT NULL,
    submitted_at DOUBLE PRECISION NOT NULL,
    attempt BIGINT NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    size INTEGER NOT NULL,
    CONSTRAINT pk_board_blocks PRIMARY KEY (challenge_id, frozen, place, submitted_at, attempt)
);

CREATE TABLE matches (
    seq BIGSERIAL NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    agent TEXT COLLATE "C" NOT NULL,
    challenge_id BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    corrects BIGINT,
    at DOUBLE PRECISION NOT NULL,
    tier TEXT COLLATE "C" NOT NULL,
    result TEXT COLLATE "C",
    verified BOOLEAN NOT NULL,
    memoryless BOOLEAN NOT NULL,
    PRIMARY KEY (seq)
);

CREATE INDEX ix_matches_agent ON matches (tenant, agent, seq);

CREATE INDEX ix_matches_attempt ON matches (attempt);

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
    PRIMARY KEY (seq)
);

CREATE INDEX ix_contest_audit ON contest_audit (challenge_id, attempt);

CREATE FUNCTION contest_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'contest_audit is only ever added to'; END $$;

CREATE TRIGGER contest_audit_refuse BEFORE UPDATE OR DELETE OR TRUNCATE ON contest_audit FOR EACH STATEMENT EXECUTE FUNCTION contest_audit_refuse();

CREATE FUNCTION score_history_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'score_history is only ever added to'; END $$;

CREATE TRIGGER score_history_refuse BEFORE UPDATE OR DELETE OR TRUNCATE ON score_history FOR EACH STATEMENT EXECUTE FUNCTION score_history_refuse();

CREATE FUNCTION matches_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'matches is only ever added to'; END $$;

CREATE TRIGGER matches_refuse BEFORE UPDATE OR DELETE OR TRUNCATE ON matches FOR EACH STATEMENT EXECUTE FUNCTION matches_refuse();

-- 0003: Red against blue: submissions, and a verdict for each pairing and category.

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

-- 0004: Rescorings by a formula, whose scores follow from it.

CREATE TABLE score_rules (
    challenge_id BIGINT NOT NULL,
    scoring BIGINT NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    version_id BIGINT NOT NULL,
    CONSTRAINT pk_score_rules PRIMARY KEY (challenge_id, scoring),
    FOREIGN KEY(version_id) REFERENCES challenge_versions (id)
);

-- 0005: Nobody bends a board: pauses, waits, levels of trajectories, matches from attempts, handles.

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

CREATE TABLE attempt_waits (
    attempt BIGINT NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (attempt),
    FOREIGN KEY(attempt) REFERENCES attempts (key)
);

CREATE TABLE disqualified_agents (
    tenant TEXT COLLATE "C" NOT NULL,
    agent TEXT COLLATE "C" NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    CONSTRAINT pk_disqualified_agents PRIMARY KEY (tenant, agent)
);

CREATE TABLE judge_answers (
    tenant TEXT COLLATE "C" NOT NULL,
    question TEXT COLLATE "C" NOT NULL,
    answer TEXT NOT NULL,
    model TEXT COLLATE "C",
    at DOUBLE PRECISION NOT NULL,
    CONSTRAINT pk_judge_answers PRIMARY KEY (tenant, question)
);

ALTER TABLE challenges ADD COLUMN closed_at DOUBLE PRECISION;

ALTER TABLE challenges ADD COLUMN held_at DOUBLE PRECISION;

ALTER TABLE challenges ADD COLUMN unfrozen_at DOUBLE PRECISION;

ALTER TABLE attempts ADD COLUMN trajectory_level TEXT COLLATE "C" DEFAULT 'none' NOT NULL;

ALTER TABLE attempts ADD COLUMN match_at DOUBLE PRECISION;

ALTER TABLE attempts ADD COLUMN voided_at DOUBLE PRECISION;

CREATE INDEX ix_attempts_voided ON attempts (challenge_id, agent) WHERE voided_at IS NOT NULL;

CREATE INDEX ix_attempts_matches ON attempts (tenant, agent, match_at, key) WHERE match_at IS NOT NULL;

ALTER TABLE attempt_details ADD COLUMN steps_digest TEXT COLLATE "C";

CREATE INDEX ix_attempt_details_steps ON attempt_details (tenant, steps_digest) WHERE steps_digest IS NOT NULL;

CREATE TABLE agents (
    tenant TEXT COLLATE "C" NOT NULL,
    handle TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    handle_look TEXT COLLATE "C" NOT NULL,
    name_look TEXT COLLATE "C" NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    CONSTRAINT pk_agents PRIMARY KEY (tenant, handle)
);

CREATE UNIQUE INDEX ux_agents_handle_look ON agents (tenant, handle_look);

CREATE UNIQUE INDEX ux_agents_name_look ON agents (tenant, name_look);

DROP TABLE matches;

DROP FUNCTION matches_refuse();
