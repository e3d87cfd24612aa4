-- 0001: Runs, their case results, variables and secrets.

PRAGMA journal_mode = WAL;

CREATE TABLE tallymark_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT tallymark_version_pkc PRIMARY KEY (version_num)
);

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
    CONSTRAINT pk_case_results PRIMARY KEY (tenant, run_id, case_name, epoch),
    CONSTRAINT fk_case_results_run FOREIGN KEY(tenant, run_id) REFERENCES runs (tenant, id) ON DELETE CASCADE
);

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

-- 0002: Challenges, attempts, scores, boards, ratings, and the logs that are only ever added to.

CREATE TABLE challenges (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    published_at DOUBLE NOT NULL,
    revision INTEGER NOT NULL,
    frozen_at DOUBLE,
    definition TEXT NOT NULL
);

CREATE UNIQUE INDEX ux_challenges_name ON challenges (tenant, name);

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
    FOREIGN KEY(challenge_id) REFERENCES challenges (id),
    FOREIGN KEY(version_id) REFERENCES challenge_versions (id)
);

CREATE UNIQUE INDEX ux_attempts_number ON attempts (challenge_id, agent, number);

CREATE INDEX ix_attempts_newest ON attempts (challenge_id, "key");

CREATE UNIQUE INDEX ux_attempts_open ON attempts (challenge_id, agent) WHERE state = 'entered';

CREATE INDEX ix_attempts_unfinished ON attempts (tenant, state, expires_at) WHERE state IN ('entered', 'submitted');

CREATE TABLE attempt_details (
    attempt INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    digest TEXT,
    submission TEXT,
    metadata TEXT,
    reported TEXT,
    details TEXT,
    evaluation TEXT,
    trajectory TEXT,
    PRIMARY KEY (attempt),
    FOREIGN KEY(attempt) REFERENCES attempts ("key")
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

CREATE TABLE board_blocks (
    challenge_id INTEGER NOT NULL,
    frozen BOOLEAN NOT NULL,
    place DOUBLE NOT NULL,
    submitted_at DOUBLE NOT NULL,
    attempt INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    size INTEGER NOT NULL,
    CONSTRAINT pk_board_blocks PRIMARY KEY (challenge_id, frozen, place, submitted_at, attempt)
)
 WITHOUT ROWID;

CREATE TABLE matches (
    seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    agent TEXT NOT NULL,
    challenge_id INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    corrects INTEGER,
    at DOUBLE NOT NULL,
    tier TEXT NOT NULL,
    result TEXT,
    verified BOOLEAN NOT NULL,
    memoryless BOOLEAN NOT NULL
);

CREATE INDEX ix_matches_agent ON matches (tenant, agent, seq);

CREATE INDEX ix_matches_attempt ON matches (attempt);

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
    note TEXT
);

CREATE INDEX ix_contest_audit ON contest_audit (challenge_id, attempt);

CREATE TRIGGER contest_audit_update BEFORE UPDATE ON contest_audit BEGIN SELECT RAISE(ABORT, 'contest_audit is only ever added to'); END;

CREATE TRIGGER contest_audit_delete BEFORE DELETE ON contest_audit BEGIN SELECT RAISE(ABORT, 'contest_audit is only ever added to'); END;

CREATE TRIGGER score_history_update BEFORE UPDATE ON score_history BEGIN SELECT RAISE(ABORT, 'score_history is only ever added to'); END;

CREATE TRIGGER score_history_delete BEFORE DELETE ON score_history BEGIN SELECT RAISE(ABORT, 'score_history is only ever added to'); END;

CREATE TRIGGER matches_update BEFORE UPDATE ON matches BEGIN SELECT RAISE(ABORT, 'matches is only ever added to'); END;

CREATE TRIGGER matches_delete BEFORE DELETE ON matches BEGIN SELECT RAISE(ABORT, 'matches is only ever added to'); END;

-- 0003: Red against blue: submissions, and a verdict for each pairing and category.

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

-- 0004: Rescorings by a formula, whose scores follow from it.

CREATE TABLE score_rules (
    challenge_id INTEGER NOT NULL,
    scoring INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    version_id INTEGER NOT NULL,
    CONSTRAINT pk_score_rules PRIMARY KEY (challenge_id, scoring),
    FOREIGN KEY(version_id) REFERENCES challenge_versions (id)
);

-- 0005: Nobody bends a board: pauses, waits, levels of trajectories, matches from attempts, handles.

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

CREATE TABLE attempt_waits (
    attempt INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    at DOUBLE NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (attempt),
    FOREIGN KEY(attempt) REFERENCES attempts ("key")
);

CREATE TABLE disqualified_agents (
    tenant TEXT NOT NULL,
    agent TEXT NOT NULL,
    at DOUBLE NOT NULL,
    CONSTRAINT pk_disqualified_agents PRIMARY KEY (tenant, agent)
);

CREATE TABLE judge_answers (
    tenant TEXT NOT NULL,
    question TEXT NOT NULL,
    answer TEXT NOT NULL,
    model TEXT,
    at DOUBLE NOT NULL,
    CONSTRAINT pk_judge_answers PRIMARY KEY (tenant, question)
);

PRAGMA legacy_alter_table = ON;

ALTER TABLE challenges RENAME TO challenges_before;

PRAGMA legacy_alter_table = OFF;

DROP INDEX ux_challenges_name;

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
    unfrozen_at DOUBLE
);

CREATE UNIQUE INDEX ux_challenges_name ON challenges (tenant, name);

INSERT INTO challenges (id, tenant, name, version, published_at, revision, frozen_at, definition) SELECT id, tenant, name, version, published_at, revision, frozen_at, definition FROM challenges_before;

DROP TABLE challenges_before;

PRAGMA legacy_alter_table = ON;

ALTER TABLE attempts RENAME TO attempts_before;

PRAGMA legacy_alter_table = OFF;

DROP INDEX ix_attempts_newest;

DROP INDEX ix_attempts_unfinished;

DROP INDEX ux_attempts_number;

DROP INDEX ux_attempts_open;

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

CREATE UNIQUE INDEX ux_attempts_number ON attempts (challenge_id, agent, number);

CREATE INDEX ix_attempts_voided ON attempts (challenge_id, agent) WHERE voided_at IS NOT NULL;

CREATE INDEX ix_attempts_unfinished ON attempts (tenant, state, expires_at) WHERE state IN ('entered', 'submitted');

CREATE UNIQUE INDEX ux_attempts_open ON attempts (challenge_id, agent) WHERE state = 'entered';

CREATE INDEX ix_attempts_newest ON attempts (challenge_id, "key");

CREATE INDEX ix_attempts_matches ON attempts (tenant, agent, match_at, "key") WHERE match_at IS NOT NULL;

INSERT INTO attempts (key, tenant, challenge_id, version_id, agent, number, state, seed, entered_at, expires_at, submitted_at, scored_at, verified, memoryless) SELECT key, tenant, challenge_id, version_id, agent, number, state, seed, entered_at, expires_at, submitted_at, scored_at, verified, memoryless FROM attempts_before;

DROP TABLE attempts_before;

PRAGMA legacy_alter_table = ON;

ALTER TABLE attempt_details RENAME TO attempt_details_before;

PRAGMA legacy_alter_table = OFF;

CREATE TABLE attempt_details (
    attempt INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    digest TEXT,
    submission TEXT,
    metadata TEXT,
    reported TEXT,
    details TEXT,
    evaluation TEXT,
    trajectory TEXT,
    steps_digest TEXT,
    PRIMARY KEY (attempt),
    FOREIGN KEY(attempt) REFERENCES attempts ("key")
);

CREATE INDEX ix_attempt_details_steps ON attempt_details (tenant, steps_digest) WHERE steps_digest IS NOT NULL;

INSERT INTO attempt_details (attempt, tenant, digest, submission, metadata, reported, details, evaluation, trajectory) SELECT attempt, tenant, digest, submission, metadata, reported, details, evaluation, trajectory FROM attempt_details_before;

DROP TABLE attempt_details_before;

CREATE TABLE agents (
    tenant TEXT NOT NULL,
    handle TEXT NOT NULL,
    name TEXT NOT NULL,
    handle_look TEXT NOT NULL,
    name_look TEXT NOT NULL,
    created_at DOUBLE NOT NULL,
    CONSTRAINT pk_agents PRIMARY KEY (tenant, handle)
);

CREATE UNIQUE INDEX ux_agents_name_look ON agents (tenant, name_look);

CREATE UNIQUE INDEX ux_agents_handle_look ON agents (tenant, handle_look);

DROP TABLE matches;
