"""Variables that change what runs."""

import re

_NAMES = re.compile(
    r"PATH|LD_\w+|DYLD_\w+|BASH_ENV|BASH_FUNC\w*|ENV|IFS|PS[0-4]|PROMPT_COMMAND|SHELLOPTS|BASHOPTS"
    r"|CDPATH|GLOBIGNORE|EXECIGNORE|FPATH|ZDOTDIR|SHELL|HOME|XDG_CONFIG_\w+|TERMINFO\w*|GCONV_PATH"
    r"|GIT_\w+|\w*PAGER|MANOPT|LESS\w*|\w*EDITOR|VISUAL|BROWSER|\w*ASKPASS|\w*_RSH"
    r"|PYTHON\w+|NODE_\w+|PERL\w+|RUBY\w*|GEM_\w+|BUNDLE_\w+|LUA_\w+|PHP\w+|JAVA_TOOL_OPTIONS"
    r"|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|CLASSPATH|MAKEFLAGS|MAKEFILES|TAR_OPTIONS|GZIP|XZ_\w+"
    r"|ANSIBLE_\w+|npm_config_\w+|NPM_CONFIG_\w+|PIP_\w+|CC|CXX|RUSTC\w*|CARGO_\w+|GOFLAGS"
    r"|\w*_proxy|\w*_PROXY|OPENSSL_\w+|TF_CLI_\w+|TF_VAR_\w+|KUBECTL_\w+|KUBECONFIG|DOCKER_\w+|HELM_\w+"
)
_HARMLESS = re.compile(
    r"PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|PYTHONIOENCODING|PYTHONHASHSEED|PYTHONUTF8|NODE_ENV"
    r"|GIT_TERMINAL_PROMPT|GIT_(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL|DATE)|GIT_OPTIONAL_LOCKS"
    r"|DOCKER_BUILDKIT|DOCKER_CLI_HINTS|TF_VAR_\w+|LESSCHARSET|no_proxy|NO_PROXY|PIP_NO_\w+"
)
_HARMLESS_PAGERS = frozenset({"", "cat", "less", "more"})


def changes_what_runs(name: str, value: object) -> bool:
    """Whether a program may run something else because of this variable."""
    if not _NAMES.fullmatch(name) or _HARMLESS.fullmatch(name):
        return False
    return not (name.endswith("PAGER") and value in _HARMLESS_PAGERS)
