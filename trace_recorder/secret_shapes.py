r"""What secrets look like: the shapes of well-known services' keys and tokens, and of what stands where a secret does.

A row is added where a shape is unambiguous; keys that look like any other word (Mistral's, Cohere's, Azure's) are known
by the names beside them, or as values that a run has learned. Invariants: nothing here takes more than linear time,
whatever the text; `may_hold` is true of every text in which a row finds something, and costs a few milliseconds a
megabyte. Its patterns begin with one literal character, which is what makes them quick: `re` looks for that without
trying to match.
"""

from __future__ import annotations

import re

_WORD = "A-Za-z0-9_"
_NEVER = r"\[REDACTED|[$<{%]|\*\*\*|\.\.\.|(?i:your[_-]|my[_-]|x{4}|env[.:(]|os\.|process\.)"
"""How the value of something secret does not begin: it is masked, or it is the place for one."""


def _begins(prefix: str, *, apart: bool = False) -> str:
    r"""A prefix where a secret may begin: not within a word, but right behind an escape of JSON, whose last letter is
    none. `apart`: not behind a hyphen either, where what follows may hold hyphens and is looked at twice.
    """
    before = rf"(?<![{_WORD}-]{prefix})" if apart else rf"(?<![{_WORD}]{prefix})"
    return rf"{prefix}(?:{before}|(?<=\\[bfnrt]{prefix})|(?<=\\u[0-9A-Fa-f]{{4}}{prefix}))"


_END = r"(?![A-Za-z0-9_-])"
_DIGIT = r"(?=[A-Za-z_-]*[0-9])"
_SLUG = rf"(?:[a-z0-9]{{1,15}}[-_]+)*[a-z0-9]{{1,15}}{_END}"
"""Words with hyphens, such as the name of a class in a page."""
_NAMES_OF_SECRETS = (
    r"(?:(?i:(?:proxy-)?authorization(?:_token)?|(?:[a-z]+[_-]){0,3}api[_-]?key|(?:aws_)?secret_access_key"
    r"|(?:access|refresh|auth|bearer|session|bot|secret|security|api)_token|(?:account|secret|private|subscription)_key"
    r"|(?:client|consumer|app|webhook|signing)_secret|(?:[a-z]+_){0,2}password)"
    r"|[A-Z][A-Z0-9_]{1,60}_(?:API_?KEY|ACCESS_KEY|SECRET_KEY|TOKEN|SECRET|PASSWORD))"
)
SECRET_MEMBER = re.compile(_NAMES_OF_SECRETS)
"""Names of members of JSON that hold a secret, whatever it looks like."""
SECRET_VALUE = re.compile(rf"(?:(?:Bearer|Basic|Token|ApiKey|Key) +)?(?!{_NEVER})[^\s\"\\]{{8,}}")

_SHAPES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    # (what it is, texts of which every such secret contains one, its shape), those first that others may touch
    (
        "private-key",
        ("-----BEGIN ",),
        (r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:[^\"-]|-(?!----))++-----END [A-Z ]{0,30}PRIVATE KEY"
        r"(?: BLOCK)?-----"),
    ),
    (
        "url-password",
        ("://", ":\\/\\/"),
        (r"(?P<name>:(?://|\\/\\/))(?!\[REDACTED)[^\s/:@\"\\]*:(?!\[REDACTED|[{<]|\$[{(A-Z]|%[s(]|\*+@|password@)"
        r"[^\s/@\"\\]+(?=@)"),
    ),
    ("anthropic-key", ("sk-ant-",), _begins("sk-ant-") + r"[A-Za-z0-9_-]{16,}"),
    ("langfuse-key", ("sk-lf-",), _begins("sk-lf-") + r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}" + _END),
    (
        "openai-key",  # and those of DeepSeek, OpenRouter, Moonshot, DashScope, which begin so too
        ("sk-",),
        _begins("sk-", apart=True) + rf"(?<![+/]sk-)(?!ant-){_DIGIT}(?!{_SLUG})[A-Za-z0-9_-]{{20,}}",
    ),
    ("google-key", ("AIza",), _begins("AIza") + r"[A-Za-z0-9_-]{35}" + _END),
    ("google-key", ("AQ.Ab",), _begins(r"AQ\.Ab") + r"[A-Za-z0-9_-]{40,}"),
    ("google-token", ("ya29.",), _begins(r"ya29\.") + r"[A-Za-z0-9_-]{20,}"),
    ("google-secret", ("GOCSPX-",), _begins("GOCSPX-") + r"[A-Za-z0-9_-]{20,}"),
    ("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), _begins("gh[pousr]_") + r"[A-Za-z0-9]{36,}" + _END),
    ("github-token", ("github_pat_",), _begins("github_pat_") + r"[A-Za-z0-9_]{30,}"),
    ("gitlab-token", ("glpat-",), _begins("glpat-") + r"[A-Za-z0-9_.-]{20,}"),
    ("slack-token", ("xox",), _begins("xox[abeoprs]-", apart=True) + _DIGIT + r"[A-Za-z0-9-]{10,}"),
    ("slack-token", ("xapp-",), _begins("xapp-") + r"[0-9]-[A-Z0-9]{8,}-[0-9]{8,}-[A-Za-z0-9]{20,}"),
    (
        "slack-webhook",
        ("hooks.slack.com/",),
        r"(?P<name>hooks\.slack\.com/services/)[A-Z0-9]{8,}/[A-Z0-9]{8,}/[A-Za-z0-9]{20,}",
    ),
    ("huggingface-token", ("hf_",), _begins("hf_") + r"[A-Za-z0-9]{30,}" + _END),
    ("groq-key", ("gsk_",), _begins("gsk_") + r"[A-Za-z0-9]{40,}" + _END),
    ("xai-key", ("xai-",), _begins("xai-") + r"[A-Za-z0-9]{40,}" + _END),
    ("perplexity-key", ("pplx-",), _begins("pplx-") + r"[A-Za-z0-9]{40,}" + _END),
    ("cerebras-key", ("csk-",), _begins("csk-") + r"[a-z0-9]{40,}" + _END),
    ("nvidia-key", ("nvapi-",), _begins("nvapi-") + r"[A-Za-z0-9_-]{50,}"),
    ("replicate-token", ("r8_",), _begins("r8_") + r"[A-Za-z0-9]{35,}" + _END),
    ("fireworks-key", ("fw_",), _begins("fw_") + r"(?=[A-Za-z]*[0-9])(?=[a-z0-9]*[A-Z])[A-Za-z0-9]{20,}" + _END),
    ("together-key", ("tgp_v1_",), _begins("tgp_v1_") + r"[A-Za-z0-9_-]{30,}"),
    ("pinecone-key", ("pcsk_",), _begins("pcsk_") + r"[A-Za-z0-9_]{40,}"),
    ("jina-key", ("jina_",), _begins("jina_") + r"[A-Za-z0-9]{40,}"),
    ("tavily-key", ("tvly-",), _begins("tvly-") + r"(?:dev-|prod-)?[A-Za-z0-9]{20,}"),
    ("langsmith-key", ("lsv2_",), _begins("lsv2_") + r"(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}" + _END),
    ("sandbox-key", ("e2b_",), _begins("e2b_") + r"[0-9a-f]{40}" + _END),
    ("npm-token", ("npm_",), _begins("npm_") + r"[A-Za-z0-9]{36}" + _END),
    ("pypi-token", ("pypi-AgE",), _begins("pypi-AgE") + r"[A-Za-z0-9_-]{50,}"),
    ("docker-token", ("dckr_",), _begins("dckr_") + r"(?:pat|oat)_[A-Za-z0-9_-]{20,}"),
    ("aws-key-id", ("AKIA", "ASIA"), _begins("A[KS]IA") + r"[A-Z0-9]{16}" + _END),
    ("databricks-token", ("dapi",), _begins("dapi") + r"[0-9a-f]{32}(?:-[0-9])?" + _END),
    ("digitalocean-token", ("_v1_",), _begins("do[opr]_v1_") + r"[0-9a-f]{64}" + _END),
    ("supabase-token", ("sbp_",), _begins("sbp_") + r"[0-9a-f]{40}" + _END),
    ("notion-token", ("ntn_",), _begins("ntn_") + r"[A-Za-z0-9]{40,}" + _END),
    ("linear-key", ("lin_api_",), _begins("lin_api_") + r"[A-Za-z0-9]{40,}" + _END),
    ("shopify-token", ("shp",), _begins("shp(?:at|ca|pa|ss)_") + r"[0-9a-fA-F]{32}" + _END),
    ("stripe-key", ("k_live_", "k_test_"), _begins("[rs]k_(?:live|test)_") + r"[A-Za-z0-9]{20,}" + _END),
    ("stripe-secret", ("whsec_",), _begins("whsec_") + r"[A-Za-z0-9+/]{24,}=*"),
    ("sendgrid-key", ("SG.",), _begins(r"SG\.") + r"[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}" + _END),
    ("vault-token", ("hvs.",), _begins(r"hvs\.") + r"[A-Za-z0-9_-]{24,}"),
    ("bearer-token", ("earer ",), r"(?P<name>earer )(?=[A-Za-z._~+/-]*[0-9])[A-Za-z0-9._~+/-]{20,}=*"),
    ("basic-credentials", ("uthorization",), r"(?P<name>uthorization\"?: ?\"?[Bb]asic )[A-Za-z0-9+/]{8,}=*"),
    (
        "jwt",
        (".eyJ",),
        _begins("eyJ", apart=True) + r"[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
    ),
    (
        "secret-member",  # of JSON that stands in a string
        ("uthorization", "ey", "EY", "_token", "_TOKEN", "_secret", "_SECRET", "assword", "_PASSWORD"),
        (rf"(?P<name>\"{_NAMES_OF_SECRETS}\\*\"\s*+:\s*+\\*\"(?:(?:Bearer|Basic|Token|ApiKey|Key) +)?)"
        rf"(?!{_NEVER})[^\s\"\\]{{8,}}"),
    ),
    (
        "assigned-secret",  # as `printenv` and .env files have them
        ("KEY=", "TOKEN=", "SECRET=", "PASSWORD=", "PASSWD="),
        (r"(?P<name>(?:API_?KEY|ACCESS_?KEY|SECRET_?KEY|TOKEN|SECRET|PASSWORD|PASSWD)=(?:\\*[\"'])?)"
        rf"(?!{_NEVER})(?=[A-Za-z_./+=:@!#^*~-]{{0,40}}[0-9])[A-Za-z0-9_./+=:@!#^*~-]{{12,}}+(?![(\[{{$])"),
    ),
    ("account-key", ("AccountKey=", "AccessKey="), r"(?P<name>Acc(?:ount|ess)Key=)[A-Za-z0-9+/]{40,}=*"),
    (
        "url-parameter",
        ("key=", "_token=", "sig=", "Signature=", "Token="),
        (r"(?P<name>[?&](?:(?:api_?)?key|access_token|sig|X-(?:Amz|Goog)-(?:Signature|Security-Token))=)"
        rf"(?!{_NEVER})(?=[A-Za-z%._~+/-]*[0-9])[A-Za-z0-9%._~+/-]{{16,}}"),
    ),
)  # fmt: skip
_PATTERNS = tuple(
    ((r"\g<name>" if "(?P<name>" in shape else "") + f"[REDACTED:{what}]", signs, re.compile(shape))
    for what, signs, shape in _SHAPES
)

_VALUE = rf"\\*\"\s*+:\s*+\\*\"(?!{_NEVER})[^\s\"\\]{{4}}"
_SIGNS = tuple(
    (gate, re.compile(pattern).search)
    for gate, pattern in (
        # (a text that has to be there, a pattern that begins with one letter, which every secret of some rows matches)
        (
            "-",
            (
                r"-(?:(?=[A-Za-z0-9_-]{10})(?:(?<=sk-)(?:(?<![A-Za-z0-9]sk-)|(?<=\\[bfnrt]sk-)|(?<=\\u[0-9A-Fa-f]{4}sk-))"
                r"|(?<=xox[abeoprs]-)|(?<=(?:lpat|CSPX|xapp|pplx|vapi|tvly|pypi)-)|(?<=(?:xai|csk)-))"
                r"|BEGIN [A-Z ]{0,30}PRIVATE)"
            ),
        ),
        (
            "_",
            (
                r"_(?:(?<=[28abcfkmnoprsuw]_)(?=[A-Za-z0-9_+/-]{10})(?:(?<=(?:hf|r8|fw)_)|(?<=(?:gh[pousr]|gsk|e2b|npm|sbp)_)"
                r"|(?<=(?:thub|pcsk|jina|lsv2|dckr)_)|(?<=shp(?:ca|pa|ss)_)|(?<=(?:whsec)_)|(?<=ntn_))|(?<=shpat_)"
                r"|live_(?<=[rs]k_live_)|test_(?<=[rs]k_test_)|v1_(?<=(?:tgp|do[opr])_v1_)|api_(?<=lin_api_)"
                rf"|(?:[Tt](?i:oken)|[Ss](?i:ecret)|[Kk](?i:ey)|[Pp](?i:assword)){_VALUE})"
            ),
        ),
        (
            ".",
            r"\.(?:eyJ[A-Za-z0-9_-]{8}|(?<=[9GQs]\.)(?=[A-Za-z0-9_-]{14})(?:(?<=(?:a29|hvs)\.)|(?<=(?:SG|AQ)\.))|slack\.com/s)",
        ),
        ("A", r"A(?:Iza|KIA|SIA)[A-Za-z0-9_-]{16}"),
        (
            "=",
            (
                r"=(?=(?:\\*[\"'])?[A-Za-z0-9%._~+/!#^*-]{8})(?:(?<=(?:KEY|KEN|RET)=)|(?<=(?:WORD|SSWD|tKey|sKey)=)"
                r"|(?<=[?&](?:key|sig)=)|(?<=[?&]api_key=)|(?<=[?&]apikey=)|(?<=ss_token=)|(?<=-(?:Signature)=)|(?<=-Token=))"
            ),
        ),
        ("@", r":(?://|\\/\\/)[^\s/:@\"\\]*:[^\s/@\"\\]+@"),
        ("y", rf"y(?<=[Kk]ey){_VALUE}"),
        ("earer ", r"earer [A-Za-z0-9._~+/-]{20}"),
        ("uthorization", rf"uthorization(?:(?i:_token)?{_VALUE}|\\*\"?: ?\\*\"?[Bb]asic )"),
        ("assword", rf"assword{_VALUE}"),
        ("dapi", r"dapi[0-9a-f]{32}"),
    )
)
_ESCAPED = re.compile(r"\\(?:u00([2-7][0-9A-Fa-f])|/)")


def may_hold(text: str) -> bool:
    """Whether a secret may be in a text, be it JSON that spells its letters with escapes."""
    for gate, search in _SIGNS:  # noqa: SIM110 - a generator costs more, on the path of every record
        if gate in text and search(text):
            return True
    return False


def unescaped(text: str) -> str:
    """JSON text with the letters and signs of ASCII that it spells with escapes, for a look at it."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)) if found[1] else "/", text) if "\\" in text else text


def mask_shapes(text: str) -> str:
    """Mask every secret of a shape that is known."""
    if may_hold(text):
        for mask, signs, pattern in _PATTERNS:
            if any(sign in text for sign in signs):
                text = pattern.sub(mask, text)
    return text


def may_begin(word: str) -> bool:
    """Whether a text that ends in this word may go on as a secret that is known by how it begins."""
    return _BEGINNING.search(word) is not None


_PREFIXES = sorted({sign for _, signs, _ in _SHAPES for sign in signs if sign[-1] in "-_" and sign[0] not in "_-"})
_PREFIXES += [
    "xoxb-",
    "xoxp-",
    "shpat_",
    "sk_live_",
    "AIza",
    "AQ.Ab",
    "ya29.",
    "AKIA",
    "ASIA",
    "eyJ",
    "SG.",
    "hvs.",
    "dapi",
]
_BEGINNING = re.compile(
    rf"(?<![{_WORD}])(?:(?:{'|'.join(map(re.escape, _PREFIXES))})[A-Za-z0-9_.-]*"
    rf"|{'|'.join(sorted({re.escape(prefix[:n]) for prefix in _PREFIXES for n in range(2, len(prefix))}))})\Z"
    r"|(?:KEY|TOKEN|SECRET|PASSWORD)=\S*\Z|-----BEGIN[^-]*\Z"
)
