r"""What secrets look like by themselves: one table of the shapes of well-known services' keys and tokens.

A row is added where a shape is unambiguous; keys that look like any other word (Mistral's, Cohere's, Azure's) are known
by the names before them (`names.py`), or as values that a run has learned (`known_values.py`). From the table
the patterns are made, the quick look before them, the beginnings that a stream waits for, and the list in
`docs/secrets.md`.

Invariants: every pattern is a prefix of a few letters, then parts of bounded length, then at most one possessive
repeat as its end. So an attempt at one place takes bounded time or ends in a match, and all of them take linear time,
whatever the text. `signs` gives a place in every text in which a row finds something.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from trace_recorder.storage.redaction.candidates import SHORTEST, Look

_WORD = "A-Za-z0-9_"
_END = r"(?![A-Za-z0-9_-])"
_DIGIT = r"(?=[A-Za-z_-]{0,60}[0-9])"
_SLUG = rf"(?:[a-z0-9]{{1,15}}+[-_]{{1,3}}+){{0,12}}[a-z0-9]{{1,15}}{_END}"
"""Words with hyphens, such as the name of a class in a page."""
_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

_TABLE: tuple[tuple[str, str, str], ...] = (
    # (what it is, how it begins, what follows), those first that others may touch
    ("anthropic-key", "sk-ant-", r"[A-Za-z0-9_-]{16,}+"),
    ("langfuse-key", "sk-lf-", _UUID + _END),
    # and those of DeepSeek, OpenRouter, Moonshot, DashScope, which begin in the same way
    ("openai-key", "sk-", rf"(?<!-sk-)(?!ant-){_DIGIT}(?!{_SLUG})[A-Za-z0-9_-]{{20,}}+"),
    ("mapbox-token", "sk.eyJ", r"[A-Za-z0-9_-]{20,200}\.[A-Za-z0-9_-]{20,}+"),
    ("google-key", "AIza", r"[A-Za-z0-9_-]{35}" + _END),
    ("google-key", "AQ.Ab", r"[A-Za-z0-9_-]{40,}+"),
    ("google-token", "ya29.", r"[A-Za-z0-9_-]{20,}+"),
    ("google-secret", "GOCSPX-", r"[A-Za-z0-9_-]{20,}+"),
    ("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"(?=[A-Za-z0-9]{36})[A-Za-z0-9]{36,}+"),
    ("github-token", "github_pat_", r"[A-Za-z0-9_]{30,}+"),
    ("gitlab-token", "glpat- gldt- glrt- glft- glsoat- glimt- glagent- gloas- glffct-", r"[A-Za-z0-9_.-]{20,}+"),
    ("gitlab-token", "glptt-", r"[0-9a-f]{40}" + _END),
    ("gitlab-token", "glcbt-", r"[0-9a-zA-Z]{1,5}_[A-Za-z0-9_-]{20,}+"),
    ("gitlab-token", "GR1348941", r"[A-Za-z0-9_-]{20,}+"),
    ("slack-token", "xoxe.xoxp- xoxe.xoxb-", r"[0-9]-[A-Z0-9a-z]{100,}+"),
    ("slack-token", "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs-", rf"(?<!-xox.-){_DIGIT}[A-Za-z0-9-]{{10,}}+"),
    ("slack-token", "xapp-", r"[0-9]-[A-Z0-9]{8,40}-[0-9]{8,20}-[A-Za-z0-9]{20,}+"),
    ("huggingface-token", "hf_ api_org_", r"[A-Za-z0-9]{30,40}" + _END),
    ("groq-key", "gsk_", r"[A-Za-z0-9]{40,64}" + _END),
    ("xai-key", "xai-", r"[A-Za-z0-9]{40,128}" + _END),
    ("perplexity-key", "pplx-", r"[A-Za-z0-9]{40,64}" + _END),
    ("cerebras-key", "csk-", r"[a-z0-9]{40,64}" + _END),
    ("nvidia-key", "nvapi-", r"[A-Za-z0-9_-]{50,}+"),
    ("replicate-token", "r8_", r"[A-Za-z0-9]{35,48}" + _END),
    ("fireworks-key", "fw_", r"(?=[A-Za-z]{0,60}[0-9])(?=[a-z0-9]{0,60}[A-Z])[A-Za-z0-9]{20,64}" + _END),
    ("together-key", "tgp_v1_", r"[A-Za-z0-9_-]{30,}+"),
    ("pinecone-key", "pcsk_", r"[A-Za-z0-9_]{40,}+"),
    ("jina-key", "jina_", r"[A-Za-z0-9]{40,}+"),
    ("tavily-key", "tvly-", r"(?:dev-|prod-)?[A-Za-z0-9]{20,}+"),
    ("langsmith-key", "lsv2_", r"(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}" + _END),
    ("sandbox-key", "e2b_", r"[0-9a-f]{40}" + _END),
    ("wandb-key", "wandb_v1_", r"[A-Za-z0-9_-]{40,}+"),
    ("voyage-key", "pa-", r"(?<![-.]pa-)(?=[a-z0-9_-]{0,60}[A-Z])(?=[A-Za-z_-]{0,60}[0-9])[A-Za-z0-9_-]{43}" + _END),
    ("brave-key", "BSA", r"(?=[A-Za-z_-]{0,30}[0-9])(?=[A-Z0-9_-]{0,30}[a-z])[A-Za-z0-9_-]{27,28}" + _END),
    ("npm-token", "npm_", r"[A-Za-z0-9]{36}" + _END),
    ("pypi-token", "pypi-AgE", r"[A-Za-z0-9_-]{50,}+"),
    ("docker-token", "dckr_pat_ dckr_oat_", r"[A-Za-z0-9_-]{20,}+"),
    ("rubygems-key", "rubygems_", r"[0-9a-f]{48}" + _END),
    ("clojars-token", "CLOJARS_", r"[0-9a-z]{60}" + _END),
    ("aws-key-id", "AKIA ASIA ABIA ACCA", r"[A-Z0-9]{16}" + _END),
    ("aws-key-id", "A3T", r"[A-Z0-9]{17}" + _END),
    ("bedrock-key", "ABSK", r"[A-Za-z0-9+/]{100,}+=*+"),
    ("bedrock-key", "bedrock-api-key-", r"[A-Za-z0-9+/]{30,}+=*+"),
    ("databricks-token", "dapi", r"[0-9a-f]{32}(?:-[0-9])?" + _END),
    ("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", r"[0-9a-f]{64}" + _END),
    ("supabase-token", "sbp_ sb_secret_", r"[0-9A-Za-z_-]{31,}+"),
    ("notion-token", "ntn_", r"[A-Za-z0-9]{40,}+"),
    ("notion-token", "secret_", r"(?=[A-Za-z]{0,43}[0-9])(?=[a-z0-9]{0,43}[A-Z])[A-Za-z0-9]{43}" + _END),
    ("linear-key", "lin_api_ lin_oauth_", r"[A-Za-z0-9]{40,}+"),
    ("shopify-token", "shpat_ shpca_ shppa_ shpss_", r"[0-9a-fA-F]{32}" + _END),
    ("stripe-key", "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_", r"[A-Za-z0-9]{16,}+"),
    ("stripe-secret", "whsec_", r"[A-Za-z0-9+/]{24,}+=*+"),
    ("sendgrid-key", "SG.", r"[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}" + _END),
    ("vault-token", "hvs. hvb. hvr.", r"[A-Za-z0-9_-]{24,}+"),
    ("vault-token", "s.", r"(?=[A-Za-z]{0,21}[0-9]{1,22}[A-Za-z]{1,22}[0-9])(?=[a-z0-9]{0,23}[A-Z])[A-Za-z0-9]{24}(?![A-Za-z0-9_(-])"),  # noqa: E501 - a pattern is read in one piece
    ("onepassword-key", "A3-", r"[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}" + _END),
    ("onepassword-token", "ops_eyJ", r"[A-Za-z0-9+/_-]{100,}+=*+"),
    ("adobe-secret", "p8e-", r"[A-Za-z0-9_-]{32}" + _END),
    ("age-key", "AGE-SECRET-KEY-1", r"[0-9A-Z]{58}" + _END),
    ("airtable-token", "pat", r"(?=[A-Za-z]{0,13}[0-9A-Z])[A-Za-z0-9]{14}\.[0-9a-f]{64}" + _END),
    ("harness-token", "pat. sat.", r"[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}" + _END),
    ("alibaba-key-id", "LTAI", r"(?=[A-Za-z]{0,24}[0-9])[A-Za-z0-9]{12,24}" + _END),
    ("artifactory-key", "AKCp", r"[A-Za-z0-9]{60,80}" + _END),
    ("artifactory-token", "cmVmd", r"[A-Za-z0-9]{59}" + _END),
    ("atlassian-token", "ATATT3 ATCTT3 ATBB", r"[A-Za-z0-9_=-]{24,}+"),
    ("authress-key", "authress_ scauth_ sc_ ext_", r"[A-Za-z0-9]{5,30}\.[A-Za-z0-9]{4,6}\.acc[_-][a-zA-Z0-9-]{10,32}\.[A-Za-z0-9+/_=-]{30,}+"),  # noqa: E501 - a pattern is read in one piece
    ("clickhouse-key", "4b1d", r"(?=[a-f0-9]{0,37}[G-Zg-zA-F])[A-Za-z0-9]{38}" + _END),
    ("cloudflare-key", "v1.0-", r"[0-9a-f]{24}-[0-9a-f]{146}" + _END),
    ("defined-token", "dnkey-", r"[A-Za-z0-9=_-]{60,}+"),
    ("doppler-token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", r"(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}" + _END),  # noqa: E501 - a pattern is read in one piece
    ("duffel-token", "duffel_live_ duffel_test_", r"[A-Za-z0-9_=-]{43}" + _END),
    ("dynatrace-token", "dt0c01. dt0s01. dt0s16.", r"[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}" + _END),
    ("easypost-key", "EZAK EZTK", r"[A-Za-z0-9]{54}" + _END),
    ("facebook-token", "EAAM EAAC EAAG EAAB", r"(?=[A-Za-z]{0,40}[0-9])(?![A-Za-z0-9]{0,90}AAAA)[A-Za-z0-9]{100,600}+(?![A-Za-z0-9+/])"),  # noqa: E501 - a pattern is read in one piece
    ("square-token", "EAAA sq0atp- sq0csp-", r"(?=[A-Za-z_-]{0,60}[0-9])[A-Za-z0-9_-]{22,64}(?![A-Za-z0-9_+/-])"),
    ("flutterwave-key", "FLWSECK_TEST- FLWSECK-", r"[0-9a-zA-Z]{12,34}(?:-X)?" + _END),
    ("fly-token", "fo1_ fm1a_ fm1r_ fm2_", r"[A-Za-z0-9+/_-]{43,}+=*+"),
    ("frameio-token", "fio-u-", r"[A-Za-z0-9_=-]{64}" + _END),
    ("grafana-key", "eyJrIjoi", r"[A-Za-z0-9]{70,}+=*+"),
    ("grafana-token", "glc_", r"[A-Za-z0-9+/]{32,}+=*+"),
    ("grafana-token", "glsa_", r"[A-Za-z0-9]{32}_[0-9A-Fa-f]{8}" + _END),
    ("heroku-key", "HRKU-", r"[0-9a-zA-Z_-]{36,}+"),
    ("infracost-token", "ico-", r"(?=[A-Za-z]{0,32}[0-9])[A-Za-z0-9]{32}" + _END),
    ("intra42-secret", "s-s4t2ud- s-s4t2af-", r"[0-9a-f]{64}" + _END),
    ("mailgun-key", "key-", r"[0-9a-f]{32}" + _END),
    ("newrelic-key", "NRAK- NRJS- NRII- NRIQ- NRRA-", r"[A-Za-z0-9-]{19,}+"),
    ("octopus-key", "API-", r"(?=[A-Z]{0,26}[0-9])[A-Z0-9]{26}" + _END),
    ("openshift-token", "sha256~", r"[A-Za-z0-9_-]{43}" + _END),
    ("plaid-token", "access-sandbox- access-development- access-production-", _UUID + _END),
    ("planetscale-token", "pscale_tkn_ pscale_oauth_ pscale_pw_", r"[A-Za-z0-9_=.-]{32,}+"),
    ("postman-key", "PMAK-", r"[0-9a-fA-F]{24}-[0-9a-fA-F]{34}" + _END),
    ("posthog-key", "phx_", r"[A-Za-z0-9]{40,48}" + _END),
    ("prefect-token", "pnu_ pnb_", r"[A-Za-z0-9]{36}" + _END),
    ("pulumi-token", "pul-", r"[0-9a-f]{40}" + _END),
    ("readme-key", "rdme_", r"[a-z0-9]{70}" + _END),
    ("scalingo-token", "tk-us-", r"[A-Za-z0-9_-]{48}" + _END),
    ("brevo-key", "xkeysib- xsmtpsib-", r"[0-9a-f]{64}-[A-Za-z0-9]{16}" + _END),
    ("sentry-token", "sntryu_ sntrys_", r"[A-Za-z0-9+/=_]{40,}+"),
    ("settlemint-token", "sm_aat_ sm_pat_ sm_sat_", r"[A-Za-z0-9]{16}" + _END),
    ("shippo-token", "shippo_live_ shippo_test_", r"[0-9a-fA-F]{40}" + _END),
    ("sonar-token", "sqp_ squ_ sqa_", r"[0-9a-f]{40}" + _END),
    ("sourcegraph-token", "sgp_", r"(?:(?:[0-9a-fA-F]{16}|local)_)?[0-9a-fA-F]{40}" + _END),
    ("twilio-key", "SK", r"[0-9a-fA-F]{32}" + _END),
    ("typeform-token", "tfp_", r"[A-Za-z0-9_.=-]{40,}+"),
    ("yandex-key", "AQVN", r"[A-Za-z0-9_-]{35,38}" + _END),
    ("yandex-key", "YCAJ YCM YCN YCO YCP", r"(?=[A-Za-z_-]{0,38}[0-9])[A-Za-z0-9_-]{35,38}" + _END),
    ("yandex-token", "t1.", r"[A-Za-z0-9_-]{2,400}={0,2}\.[A-Za-z0-9_-]{86}={0,2}" + _END),
    ("twitter-token", "A" * 20, r"[A-Za-z0-9]{0,60}%[A-Za-z0-9%]{40,}+"),
    ("vercel-token", "vcp_ vck_ vca_", r"[A-Za-z0-9]{24,}+"),
    ("asana-token", "1/", r"(?<![/.]1/)[0-9]{15,17}:[0-9a-f]{32}" + _END),
    ("figma-token", "figd_", r"[A-Za-z0-9_-]{36,}+"),
    ("contentful-token", "CFPAT-", r"[A-Za-z0-9_-]{43}" + _END),
    ("dropbox-token", "sl.", r"(?:u\.)?[A-Za-z0-9_=-]{130,}+"),
    ("buildkite-token", "bkua_", r"[0-9a-z]{40}" + _END),
    ("circleci-token", "CCIPAT_ CCIPRJ_", r"[A-Za-z0-9]{16,30}_[0-9a-f]{40}" + _END),
    ("netlify-token", "nfp_ nfc_ nfo_", r"[A-Za-z0-9]{36,}+"),
    ("neon-key", "napi_", r"[a-z0-9]{60,}+"),
    ("tailscale-key", "tskey-auth- tskey-api- tskey-client-", r"[A-Za-z0-9]{8,40}-[A-Za-z0-9]{16,}+"),
    ("jwt", "eyJ", r"(?<!-eyJ)[A-Za-z0-9_-]{8,1000}+\.eyJ[A-Za-z0-9_-]{8,8000}+\.[A-Za-z0-9_-]{8,}+"),
)  # fmt: skip
"""Secrets with a beginning of their own. Several beginnings are separated by spaces."""

_UNMISTAKABLE = ("AIza", "AKIA", "ASIA", "dapi")
"""Letters that may follow a slash; others occur in images that are written in base64."""

_INNER: tuple[tuple[str, str, str, str, str], ...] = (
    # (what it is, a text in the middle of it, what is before that, and at its end, what follows)
    ("telegram-token", ":A", r"[0-9]{8,10}", "[0-9]{8}", r"[A-Za-z0-9_-]{34}" + _END),
    ("azure-secret", "Q~", r"[A-Za-z0-9_~.]{3}[0-9]", "[0-9]", r"[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~-])"),
    ("terraform-token", ".atlasv1.", r"[A-Za-z0-9]{14}", "[A-Za-z0-9]{14}", r"[A-Za-z0-9_=-]{60,70}" + _END),
    ("facebook-token", "|", r"[0-9]{15,16}", "[0-9]{15}", rf"{_DIGIT}[A-Za-z0-9_-]{{27,40}}" + _END),
    ("mailchimp-key", "-us", r"[0-9a-f]{32}", "[0-9a-f]{32}", r"[0-9]{1,2}" + _END),
    ("maxmind-key", "_mmk", r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}", "[A-Za-z0-9]{29}", _END),
    ("newrelic-key", "NRAL", r"[0-9a-f]{36}", "[0-9a-f]{36}", _END),
    ("discord-token", ".", r"[MNO][A-Za-z0-9_-]{23,27}", "[A-Za-z0-9_-]{24}", r"[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}" + _END),  # noqa: E501 - a pattern is read in one piece
)  # fmt: skip
"""Secrets that are recognised by their middle only."""

_PLACED: tuple[tuple[str, str, str], ...] = (
    # (what it is, how the text before it begins, what follows, with the secret as its group)
    ("slack-webhook", "hooks.slack.com/", r"(?:services|workflows|triggers)/([A-Za-z0-9/]{20,}+)"),
    ("discord-webhook", "/api/webhooks/", r"[0-9]{15,22}/([A-Za-z0-9_-]{50,}+)"),
    ("teams-webhook", ".webhook.office.com/", r"webhookb2/([A-Za-z0-9@/-]{60,}+)"),
    ("bearer-token", "earer ", r"((?=[A-Za-z._~+/%-]{0,60}[0-9])[A-Za-z0-9._~+/%-]{20,}+=*+)"),
    ("gitlab-session", "_gitlab_session=", r"([0-9a-z]{32})" + _END),
    ("sonar-token", "sonar.login=", r"([A-Za-z0-9_-]{40})" + _END),
    ("sidekiq-secret", "CONTRIBSYS__COM=", r"([0-9a-f]{8}:[0-9a-f]{8})" + _END),
    ("account-key", "AccountKey=", r"([A-Za-z0-9+/]{40,}+=*+)"),
)  # fmt: skip
"""Secrets that are recognised by the text before them."""

_BREAK = r"(?:\\{1,7}[nr]|[\r\n])"
_PEM_LINE = rf"(?>(?:\\{{1,7}}[nrt]|[\r\n\t +>|]){{0,12}})(?:[A-Za-z0-9+/=]{{12,}}+|[A-Za-z-]{{3,12}}: [A-Za-z0-9,-]{{1,60}}+|[A-Za-z0-9+/=]{{1,11}}+(?=\s{{0,3}}(?:{_BREAK}|\Z)))"  # noqa: E501 - a pattern is read in one piece
PEM_LONGEST = 20_000
"""The END of a private key is searched for in this many characters after its BEGIN."""
_PEM = (
    r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
    rf"(?:(?>(?:[^\"<-]|-(?!----)){{1,{PEM_LONGEST}}})-----END [A-Z0-9 ]{{0,30}}PRIVATE KEY(?: BLOCK)?-----"
    rf"|(?=(?:[^\n\"<]{{0,80}}{_BREAK}){{0,4}}?[ \t+>|]{{0,8}}[A-Za-z0-9+/=]{{12}})(?>(?:{_PEM_LINE})*))"
)
PEM_BEGIN = "-----BEGIN "


@dataclass(frozen=True)
class Shape:
    """One pattern, texts of which each of its secrets has one, and the mask, for the group `secret` if there is one."""

    what: str
    signs: tuple[str, ...]
    regex: str
    grouped: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The pattern, compiled when a text has one of the signs: to compile all of them delays every import."""
        return re.compile(self.regex)

    def mask(self, text: str) -> str:
        """Return a text with every secret of this shape masked."""
        if not any(sign in text for sign in self.signs):
            return text
        mask = f"[REDACTED:{self.what}]"
        if not self.grouped:
            return self.pattern.sub(mask, text)
        return self.pattern.sub(
            lambda found: found[0][: found.start(1) - found.start()] + mask + found[0][found.end(1) - found.start() :],
            text,
        )


def _boundary(prefix: str, length: int) -> str:
    r"""The text where a secret with this prefix may begin, in front of the last `length` characters.

    It is no word, except for an escape of JSON, of a URL or of a terminal, as its last letter is no word.
    """
    at = f".{{{length}}}"
    within = "+/" if prefix == "sk-" or (prefix.isalnum() and prefix not in _UNMISTAKABLE) else ""
    after_plus = rf"|(?<=[\s>\"]\+{at})|(?<=\A\+{at})|(?<=\\n\+{at})" if within else ""
    return (
        rf"(?:(?<![{_WORD}{within}]{at})|(?<=\\[bfnrt]{at})|(?<=(?:%[0-9A-F]{{2}}|[0-9;\[][0-9]m){at})"
        rf"|(?<=\\u[0-9A-Fa-f]{{4}}{at}){after_plus})"
    )


def _shapes() -> Iterator[Shape]:
    yield Shape("private-key", (PEM_BEGIN,), _PEM)
    for what, beginnings, follows in _TABLE:
        for prefix in beginnings.split():
            yield Shape(what, (prefix,), re.escape(prefix) + _boundary(prefix, len(prefix)) + follows)
    for what, middle, before, _, follows in _INNER:
        start = rf"(?:(?<![{_WORD}-])|(?<=\\[bfnrt])|(?<=[0-9;\[][0-9]m))"
        yield Shape(what, (middle,), f"{start}{before}{re.escape(middle)}{follows}")
    for what, beginning, follows in _PLACED:
        yield Shape(what, (beginning,), re.escape(beginning) + follows, grouped=True)


SHAPES = tuple(_shapes())
BEGINNINGS = tuple(sorted({prefix for _, some, _ in _TABLE for prefix in some.split() if len(prefix) > 2}))
"""How the secrets of the table begin."""

# ── the quick look ───────────────────────────────────────────────────────────────────────────────────────────────────

_MARKS = "-_."
_LONG = (
    rf"(?=[A-Za-z0-9_+/=.-]{{{SHORTEST}}})"
    r"(?=[A-Za-z_+/=.-]{0,80}[0-9]|[A-Z_+/=.-]{0,80}[a-z][a-z_+/=.-]{0,80}[A-Z])"
)
"""What follows a mark in a key, and seldom in anything else."""


_RARE = re.compile("[~|A-Z]")
"""Characters that are rare enough to be searched for alone."""


def _signs() -> tuple[re.Pattern[str], tuple[tuple[str, re.Pattern[str]], ...]]:
    """Return one pattern for the shapes that contain a mark or a rare character, which begins each match, and for
    each of the other shapes a text that has to be there and a pattern that begins with it.

    In either case a whole secret has to be there, so that a text without one is not searched twice.
    """
    by_mark: dict[str, list[tuple[str, int, str]]] = defaultdict(list)
    alone = [(middle, rf"(?<={last}{re.escape(middle)}){follows}") for _, middle, _, last, follows in _INNER]
    alone += [(beginning, follows) for _, beginning, follows in _PLACED if " " not in beginning]
    for _, some, follows in _TABLE:
        for prefix in some.split():
            at = max(prefix.rfind(mark) for mark in _MARKS)
            if at < 0:
                alone.append((prefix, _boundary(prefix, len(prefix)) + follows))
            else:
                by_mark[prefix[at]].append((prefix, at, follows))
    by_character: dict[str, list[str]] = defaultdict(list)
    for mark, rows in by_mark.items():
        by_character[mark].append(_behind_mark(mark, rows))
    others: list[tuple[str, re.Pattern[str]]] = []
    for text, follows in alone:
        found = _RARE.search(text) or _MARK.search(text)
        if found is None:
            others.append((text, re.compile(re.escape(text) + follows, re.ASCII)))
            continue
        behind = rf"(?<={re.escape(text[: found.end()])})" if found.start() else ""
        by_character[found[0]].append(f"{behind}{re.escape(text[found.end() :])}{follows}")
    options = "|".join(f"{re.escape(one)}(?:{'|'.join(some)})" for one, some in by_character.items())
    return re.compile(options, re.ASCII), tuple(others)


def _behind_mark(mark: str, rows: Sequence[tuple[str, int, str]]) -> str:
    """Return what has to stand behind a mark, and before it: the place of the mark in each prefix, and what follows.

    Prefixes with the mark in the same place share the text before them: half of a pattern's time to compile is that.
    """
    groups: dict[tuple[int, str], list[tuple[str, str]]] = defaultdict(list)
    for prefix, at, follows in rows:
        groups[at, _boundary(prefix, at + 1)].append((prefix, follows))
    options = []
    for (at, boundary), some in groups.items():
        first = "".join(sorted({prefix[0] for prefix, _ in some}))
        each = (f"(?<={re.escape(p[: at + 1])}){re.escape(p[at + 1 :])}{follows}" for p, follows in some)
        options.append(f"(?<=[{first}].{{{at}}}){boundary}(?:{'|'.join(each)})")
    last = "".join(sorted({re.escape(prefix[at - 1]) for prefix, at, _ in rows}))
    return rf"(?<=[{last}]{re.escape(mark)}){_LONG}(?:{'|'.join(options)})"


_MARK = re.compile(f"[{_MARKS}]")
_SIGN, _OTHER_SIGNS = _signs()


_PLACED_SIGNS = (
    (PEM_BEGIN, re.compile(r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE")),
    *((begin, re.compile(re.escape(begin) + follows, re.ASCII)) for _, begin, follows in _PLACED if " " in begin),
)
"""Those of several words."""


def signs(look: Look) -> list[int]:
    """Return where in a text a secret of the table may be."""
    plain, words = look.plain, look.words
    places: list[int] = []
    for gate, pattern in _PLACED_SIGNS:
        if gate in plain:
            places += [found.start() for found in pattern.finditer(plain)]
    if words:
        if _SIGN.search(words):
            places += [look.place(found.start()) for found in _SIGN.finditer(words)]
        for gate, pattern in _OTHER_SIGNS:
            if gate in words:
                places += [look.place(found.start()) for found in pattern.finditer(words)]
    return places
