r"""The forms of keys and tokens of well-known services: one row a form, and nothing else.

A row is added where a form is unambiguous. Keys that look like any other word (Mistral's, Cohere's, Azure's) are known
by the names before them (`names.py`), or as values that a run has learned (`known_values.py`). `patterns.py` makes of
these rows the patterns, the quick look before them, the beginnings that a stream waits for, and the list in
`docs/secrets.md`.

Invariants of a row: the beginning is a few letters, then come parts of bounded length, then at most one possessive
repeat as its end. The last column says where the form is described; it is empty where that was not noted.
"""

# ruff: noqa: E501 - one row a form: a pattern is read in one piece
from __future__ import annotations

END = r"(?![A-Za-z0-9_-])"
DIGIT = r"(?=[A-Za-z_-]{0,60}[0-9])"
_SLUG = rf"(?:[a-z0-9]{{1,15}}+[-_]{{1,3}}+){{0,12}}[a-z0-9]{{1,15}}{END}"
"""Words with hyphens, such as the name of a class in a page."""
_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

WITH_BEGINNING: tuple[tuple[str, str, str, str], ...] = (
    # (mask, how it begins, what follows, source), those first that others may touch
    ("anthropic-key", "sk-ant-", r"[A-Za-z0-9_-]{16,}+", "gitleaks"),
    ("langfuse-key", "sk-lf-", _UUID + END, ""),
    # and those of DeepSeek, OpenRouter, Moonshot, DashScope, which begin in the same way
    ("openai-key", "sk-", rf"(?<!-sk-)(?!ant-){DIGIT}(?!{_SLUG})[A-Za-z0-9_-]{{20,}}+", "gitleaks"),
    ("mapbox-token", "sk.eyJ", r"[A-Za-z0-9_-]{20,200}\.[A-Za-z0-9_-]{20,}+", ""),
    ("google-key", "AIza", r"[A-Za-z0-9_-]{35}" + END, "gitleaks"),
    ("google-key", "AQ.Ab", r"[A-Za-z0-9_-]{40,}+", ""),
    ("google-token", "ya29.", r"[A-Za-z0-9_-]{20,}+", ""),
    ("google-secret", "GOCSPX-", r"[A-Za-z0-9_-]{20,}+", ""),
    ("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"(?=[A-Za-z0-9]{36})[A-Za-z0-9]{36,}+", "gitleaks"),
    ("github-token", "github_pat_", r"[A-Za-z0-9_]{30,}+", "gitleaks"),
    ("gitlab-token", "glpat- gldt- glrt- glft- glsoat- glimt- glagent- gloas- glffct-", r"[A-Za-z0-9_.-]{20,}+", "gitleaks"),
    ("gitlab-token", "glptt-", r"[0-9a-f]{40}" + END, "gitleaks"),
    ("gitlab-token", "glcbt-", r"[0-9a-zA-Z]{1,5}_[A-Za-z0-9_-]{20,}+", "gitleaks"),
    ("gitlab-token", "GR1348941", r"[A-Za-z0-9_-]{20,}+", "gitleaks"),
    ("slack-token", "xoxe.xoxp- xoxe.xoxb-", r"[0-9]-[A-Z0-9a-z]{100,}+", "gitleaks"),
    ("slack-token", "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs-", rf"(?<!-xox.-){DIGIT}[A-Za-z0-9-]{{10,}}+", "gitleaks"),
    ("slack-token", "xapp-", r"[0-9]-[A-Z0-9]{8,40}-[0-9]{8,20}-[A-Za-z0-9]{20,}+", "gitleaks"),
    ("huggingface-token", "hf_ api_org_", r"[A-Za-z0-9]{30,40}+" + END, "gitleaks"),
    ("groq-key", "gsk_", r"[A-Za-z0-9]{40,64}+" + END, ""),
    ("xai-key", "xai-", r"[A-Za-z0-9]{40,128}+" + END, ""),
    ("perplexity-key", "pplx-", r"[A-Za-z0-9]{40,64}+" + END, "gitleaks"),
    ("cerebras-key", "csk-", r"[a-z0-9]{40,64}+" + END, ""),
    ("nvidia-key", "nvapi-", r"[A-Za-z0-9_-]{50,}+", ""),
    ("replicate-token", "r8_", r"[A-Za-z0-9]{35,48}+" + END, ""),
    ("fireworks-key", "fw_", r"(?=[A-Za-z]{0,60}[0-9])(?=[a-z0-9]{0,60}[A-Z])[A-Za-z0-9]{20,64}+" + END, ""),
    ("together-key", "tgp_v1_", r"[A-Za-z0-9_-]{30,}+", ""),
    ("pinecone-key", "pcsk_", r"[A-Za-z0-9_]{40,}+", ""),
    ("jina-key", "jina_", r"[A-Za-z0-9]{40,}+", ""),
    ("tavily-key", "tvly-", r"(?:dev-|prod-)?[A-Za-z0-9]{20,}+", ""),
    ("langsmith-key", "lsv2_", r"(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}" + END, ""),
    ("sandbox-key", "e2b_", r"[0-9a-f]{40}" + END, ""),
    ("wandb-key", "wandb_v1_", r"[A-Za-z0-9_-]{40,}+", ""),
    ("voyage-key", "pa-", r"(?<![-.]pa-)(?=[a-z0-9_-]{0,60}[A-Z])(?=[A-Za-z_-]{0,60}[0-9])[A-Za-z0-9_-]{43}" + END, ""),
    ("brave-key", "BSA", r"(?=[A-Za-z_-]{0,30}[0-9])(?=[A-Z0-9_-]{0,30}[a-z])[A-Za-z0-9_-]{27,28}+" + END, ""),
    ("npm-token", "npm_", r"[A-Za-z0-9]{36}" + END, "gitleaks"),
    ("pypi-token", "pypi-AgE", r"[A-Za-z0-9_-]{50,}+", "gitleaks"),
    ("docker-token", "dckr_pat_ dckr_oat_", r"[A-Za-z0-9_-]{20,}+", ""),
    ("rubygems-key", "rubygems_", r"[0-9a-f]{48}" + END, "gitleaks"),
    ("clojars-token", "CLOJARS_", r"[0-9a-z]{60}" + END, "gitleaks"),
    ("aws-key-id", "AKIA ASIA ABIA ACCA", r"[A-Z0-9]{16}" + END, "gitleaks"),
    ("aws-key-id", "A3T", r"[A-Z0-9]{17}" + END, "gitleaks"),
    ("bedrock-key", "ABSK", r"[A-Za-z0-9+/]{100,}+=*+", "gitleaks"),
    ("bedrock-key", "bedrock-api-key-", r"[A-Za-z0-9+/]{30,}+=*+", "gitleaks"),
    ("databricks-token", "dapi", r"[0-9a-f]{32}(?:-[0-9])?" + END, "gitleaks"),
    ("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", r"[0-9a-f]{64}" + END, "gitleaks"),
    ("supabase-token", "sbp_ sb_secret_", r"[0-9A-Za-z_-]{31,}+", ""),
    ("notion-token", "ntn_", r"[A-Za-z0-9]{40,}+", "gitleaks"),
    ("notion-token", "secret_", r"(?=[A-Za-z]{0,43}[0-9])(?=[a-z0-9]{0,43}[A-Z])[A-Za-z0-9]{43}" + END, "gitleaks"),
    ("linear-key", "lin_api_ lin_oauth_", r"[A-Za-z0-9]{40,}+", "gitleaks"),
    ("shopify-token", "shpat_ shpca_ shppa_ shpss_", r"[0-9a-fA-F]{32}" + END, "gitleaks"),
    ("stripe-key", "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_", r"[A-Za-z0-9]{16,}+", "gitleaks"),
    ("stripe-secret", "whsec_", r"[A-Za-z0-9+/]{24,}+=*+", ""),
    ("sendgrid-key", "SG.", r"[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}" + END, "gitleaks"),
    ("vault-token", "hvs. hvb. hvr.", r"[A-Za-z0-9_-]{24,}+", "gitleaks"),
    ("vault-token", "s.", r"(?=[A-Za-z]{0,21}[0-9]{1,22}[A-Za-z]{1,22}[0-9])(?=[a-z0-9]{0,23}[A-Z])[A-Za-z0-9]{24}(?![A-Za-z0-9_(-])", "gitleaks"),
    ("onepassword-key", "A3-", r"[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}" + END, "gitleaks"),
    ("onepassword-token", "ops_eyJ", r"[A-Za-z0-9+/_-]{100,}+=*+", "gitleaks"),
    ("adobe-secret", "p8e-", r"[A-Za-z0-9_-]{32}" + END, "gitleaks"),
    ("age-key", "AGE-SECRET-KEY-1", r"[0-9A-Z]{58}" + END, "gitleaks"),
    ("airtable-token", "pat", r"(?=[A-Za-z]{0,13}[0-9A-Z])[A-Za-z0-9]{14}\.[0-9a-f]{64}" + END, ""),
    ("harness-token", "pat. sat.", r"[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}" + END, "gitleaks"),
    ("alibaba-key-id", "LTAI", r"(?=[A-Za-z]{0,24}[0-9])[A-Za-z0-9]{12,24}+" + END, "gitleaks"),
    ("artifactory-key", "AKCp", r"[A-Za-z0-9]{60,80}+" + END, "gitleaks"),
    ("artifactory-token", "cmVmd", r"[A-Za-z0-9]{59}" + END, "gitleaks"),
    ("atlassian-token", "ATATT3 ATCTT3 ATBB", r"[A-Za-z0-9_=-]{24,}+", "gitleaks"),
    ("authress-key", "authress_ scauth_ sc_ ext_", r"[A-Za-z0-9]{5,30}\.[A-Za-z0-9]{4,6}\.acc[_-][a-zA-Z0-9-]{10,32}\.[A-Za-z0-9+/_=-]{30,}+", "gitleaks"),
    ("clickhouse-key", "4b1d", r"(?=[a-f0-9]{0,37}[G-Zg-zA-F])[A-Za-z0-9]{38}" + END, "gitleaks"),
    ("cloudflare-key", "v1.0-", r"[0-9a-f]{24}-[0-9a-f]{146}" + END, "gitleaks"),
    ("defined-token", "dnkey-", r"[A-Za-z0-9=_-]{60,}+", "gitleaks"),
    ("doppler-token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", r"(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}+" + END, "gitleaks"),
    ("duffel-token", "duffel_live_ duffel_test_", r"[A-Za-z0-9_=-]{43}" + END, ""),
    ("dynatrace-token", "dt0c01. dt0s01. dt0s16.", r"[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}" + END, "gitleaks"),
    ("easypost-key", "EZAK EZTK", r"[A-Za-z0-9]{54}" + END, "gitleaks"),
    ("facebook-token", "EAAM EAAC EAAG EAAB", r"(?=[A-Za-z]{0,40}[0-9])(?![A-Za-z0-9]{0,90}AAAA)[A-Za-z0-9]{100,600}+(?![A-Za-z0-9+/])", "gitleaks"),
    ("square-token", "EAAA sq0atp- sq0csp-", r"(?=[A-Za-z_-]{0,60}[0-9])[A-Za-z0-9_-]{22,64}+(?![A-Za-z0-9_+/-])", "gitleaks"),
    ("flutterwave-key", "FLWSECK_TEST- FLWSECK-", r"[0-9a-zA-Z]{12,34}(?:-X)?" + END, "gitleaks"),
    ("fly-token", "fo1_ fm1a_ fm1r_ fm2_", r"[A-Za-z0-9+/_-]{43,}+=*+", "gitleaks"),
    ("frameio-token", "fio-u-", r"[A-Za-z0-9_=-]{64}" + END, "gitleaks"),
    ("grafana-key", "eyJrIjoi", r"[A-Za-z0-9]{70,}+=*+", "gitleaks"),
    ("grafana-token", "glc_", r"[A-Za-z0-9+/]{32,}+=*+", "gitleaks"),
    ("grafana-token", "glsa_", r"[A-Za-z0-9]{32}_[0-9A-Fa-f]{8}" + END, "gitleaks"),
    ("heroku-key", "HRKU-", r"[0-9a-zA-Z_-]{36,}+", "gitleaks"),
    ("infracost-token", "ico-", r"(?=[A-Za-z]{0,32}[0-9])[A-Za-z0-9]{32}" + END, "gitleaks"),
    ("intra42-secret", "s-s4t2ud- s-s4t2af-", r"[0-9a-f]{64}" + END, "gitleaks"),
    ("mailgun-key", "key-", r"[0-9a-f]{32}" + END, "gitleaks"),
    ("newrelic-key", "NRAK- NRJS- NRII- NRIQ- NRRA-", r"[A-Za-z0-9-]{19,}+", "gitleaks"),
    ("octopus-key", "API-", r"(?=[A-Z]{0,26}[0-9])[A-Z0-9]{26}" + END, "gitleaks"),
    ("openshift-token", "sha256~", r"[A-Za-z0-9_-]{43}" + END, "gitleaks"),
    ("plaid-token", "access-sandbox- access-development- access-production-", _UUID + END, ""),
    ("planetscale-token", "pscale_tkn_ pscale_oauth_ pscale_pw_", r"[A-Za-z0-9_=.-]{32,}+", "gitleaks"),
    ("postman-key", "PMAK-", r"[0-9a-fA-F]{24}-[0-9a-fA-F]{34}" + END, "gitleaks"),
    ("posthog-key", "phx_", r"[A-Za-z0-9]{40,48}+" + END, ""),
    ("prefect-token", "pnu_ pnb_", r"[A-Za-z0-9]{36}" + END, "gitleaks"),
    ("pulumi-token", "pul-", r"[0-9a-f]{40}" + END, "gitleaks"),
    ("readme-key", "rdme_", r"[a-z0-9]{70}" + END, "gitleaks"),
    ("scalingo-token", "tk-us-", r"[A-Za-z0-9_-]{48}" + END, "gitleaks"),
    ("brevo-key", "xkeysib- xsmtpsib-", r"[0-9a-f]{64}-[A-Za-z0-9]{16}" + END, "gitleaks"),
    ("sentry-token", "sntryu_ sntrys_", r"[A-Za-z0-9+/=_]{40,}+", "gitleaks"),
    ("settlemint-token", "sm_aat_ sm_pat_ sm_sat_", r"[A-Za-z0-9]{16}" + END, "gitleaks"),
    ("shippo-token", "shippo_live_ shippo_test_", r"[0-9a-fA-F]{40}" + END, ""),
    ("sonar-token", "sqp_ squ_ sqa_", r"[0-9a-f]{40}" + END, ""),
    ("sourcegraph-token", "sgp_", r"(?:(?:[0-9a-fA-F]{16}|local)_)?[0-9a-fA-F]{40}" + END, "gitleaks"),
    ("twilio-key", "SK", r"[0-9a-fA-F]{32}" + END, "gitleaks"),
    ("typeform-token", "tfp_", r"[A-Za-z0-9_.=-]{40,}+", "gitleaks"),
    ("yandex-key", "AQVN", r"[A-Za-z0-9_-]{35,38}+" + END, "gitleaks"),
    ("yandex-key", "YCAJ YCM YCN YCO YCP", r"(?=[A-Za-z_-]{0,38}[0-9])[A-Za-z0-9_-]{35,38}+" + END, ""),
    ("yandex-token", "t1.", r"[A-Za-z0-9_-]{2,400}={0,2}\.[A-Za-z0-9_-]{86}={0,2}" + END, ""),
    ("twitter-token", "A" * 20, r"[A-Za-z0-9]{0,60}%[A-Za-z0-9%]{40,}+", ""),
    ("vercel-token", "vcp_ vck_ vca_", r"[A-Za-z0-9]{24,}+", ""),
    ("asana-token", "1/", r"(?<![/.]1/)[0-9]{15,17}:[0-9a-f]{32}" + END, ""),
    ("figma-token", "figd_", r"[A-Za-z0-9_-]{36,}+", ""),
    ("contentful-token", "CFPAT-", r"[A-Za-z0-9_-]{43}" + END, ""),
    ("dropbox-token", "sl.", r"(?:u\.)?[A-Za-z0-9_=-]{130,}+", ""),
    ("buildkite-token", "bkua_", r"[0-9a-z]{40}" + END, ""),
    ("circleci-token", "CCIPAT_ CCIPRJ_", r"[A-Za-z0-9]{16,30}_[0-9a-f]{40}" + END, ""),
    ("netlify-token", "nfp_ nfc_ nfo_", r"[A-Za-z0-9]{36,}+", ""),
    ("neon-key", "napi_", r"[a-z0-9]{60,}+", ""),
    ("tailscale-key", "tskey-auth- tskey-api- tskey-client-", r"[A-Za-z0-9]{8,40}-[A-Za-z0-9]{16,}+", ""),
    ("jwt", "eyJ", r"(?<!-eyJ)[A-Za-z0-9_-]{8,1000}+\.eyJ[A-Za-z0-9_-]{8,8000}+\.[A-Za-z0-9_-]{8,}+", ""),
)  # fmt: skip
"""Secrets with a beginning of their own. Several beginnings are separated by spaces."""

WITH_MIDDLE: tuple[tuple[str, str, str, str, str, str], ...] = (
    # (mask, a text in the middle of it, what is before that, and at its end, what follows, source)
    ("telegram-token", ":A", r"[0-9]{8,10}", "[0-9]{8}", r"[A-Za-z0-9_-]{34}" + END, ""),
    ("azure-secret", "Q~", r"[A-Za-z0-9_~.]{3}[0-9]", "[0-9]", r"[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~-])", "gitleaks"),
    ("terraform-token", ".atlasv1.", r"[A-Za-z0-9]{14}", "[A-Za-z0-9]{14}", r"[A-Za-z0-9_=-]{60,70}" + END, ""),
    ("facebook-token", "|", r"[0-9]{15,16}", "[0-9]{15}", rf"{DIGIT}[A-Za-z0-9_-]{{27,40}}" + END, ""),
    ("mailchimp-key", "-us", r"[0-9a-f]{32}", "[0-9a-f]{32}", r"[0-9]{1,2}" + END, ""),
    ("maxmind-key", "_mmk", r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}", "[A-Za-z0-9]{29}", END, "gitleaks"),
    ("newrelic-key", "NRAL", r"[0-9a-f]{36}", "[0-9a-f]{36}", END, ""),
    ("discord-token", ".", r"[MNO][A-Za-z0-9_-]{23,27}", "[A-Za-z0-9_-]{24}", r"[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}+" + END, ""),
)  # fmt: skip
"""Secrets that are recognised by their middle only."""

AFTER_TEXT: tuple[tuple[str, str, str, str], ...] = (
    # (mask, how the text before it begins, what follows with the secret as its group, source)
    ("slack-webhook", "hooks.slack.com/", r"(?:services|workflows|triggers)/([A-Za-z0-9/]{20,}+)", "gitleaks"),
    ("discord-webhook", "/api/webhooks/", r"[0-9]{15,22}/([A-Za-z0-9_-]{50,}+)", ""),
    ("teams-webhook", ".webhook.office.com/", r"webhookb2/([A-Za-z0-9@/-]{60,}+)", "gitleaks"),
    ("bearer-token", "earer ", r"((?=[A-Za-z._~+/%-]{0,60}[0-9])[A-Za-z0-9._~+/%-]{20,}+=*+)", "gitleaks"),
    ("gitlab-session", "_gitlab_session=", r"([0-9a-z]{32})" + END, "gitleaks"),
    ("sonar-token", "sonar.login=", r"([A-Za-z0-9_-]{40})" + END, ""),
    ("sidekiq-secret", "CONTRIBSYS__COM=", r"([0-9a-f]{8}:[0-9a-f]{8})" + END, "gitleaks"),
    ("account-key", "AccountKey=", r"([A-Za-z0-9+/]{40,}+=*+)", ""),
)  # fmt: skip
"""Secrets that are recognised by the text before them."""
