"""What a job would need and lacks, as far as that can be checked now: said when it is added, not at
night. Each is a sentence with a way out."""

import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from hermes_agent.agent.completions import Completions
from hermes_agent.core.errors import HermesError
from hermes_agent.core.jobs import Job
from hermes_agent.host.context import RuntimeContext
from hermes_agent.jobs.delivery_words import stranger
from hermes_agent.jobs.notifier import JobNotifier
from hermes_agent.jobs.scripts import Scripts, folder_of

GIT = re.compile(r"\bgit\b(?!-)|\brepo(?:sitory)?\b", re.IGNORECASE)
CLUSTER = re.compile(r"\bkubectl\b|\bkubernetes\b|\bk8s\b|\bclusters?\b", re.IGNORECASE)
QUOTED = re.compile(r"`([^`\n]+)`")
TOPICS = ((GIT, ("git log -1", "git diff")), (CLUSTER, ("kubectl get all --all-namespaces",)))
"""What a prompt speaks of, and commands with which an agent would look there."""


class JobPrerequisites:
    def __init__(
        self,
        context: RuntimeContext,
        notifier: JobNotifier,
        completions: Completions,
        scripts: Callable[[], Scripts],
    ) -> None:
        self._context = context
        self._notifier = notifier
        self._completions = completions
        self._scripts = scripts

    async def lacking(self, job: Job) -> list[str]:
        if job.spec.is_builtin:
            return []
        try:
            return await self._found(job)
        except HermesError as error:  # its policy or its terminal is not there any more
            return [f"{error.message} ({error.hint})"]

    async def _found(self, job: Job) -> list[str]:
        scripts = self._scripts()
        here = scripts.is_here(job)
        found = list(self._folder(job)) if here else []
        if refused := await scripts.foresee(job):
            found.append(f"the script will not run: {refused}")
        if job.spec.script_only:
            return found
        found += self._model(job)
        if not job.spec.deliver and not job.origin and (name := stranger(job.spec.prompt)):
            found.append(
                f"{name} is no channel here, so results are only saved "
                f"(`hermes task edit {job.id} --deliver CHANNEL` sends them)"
            )
        if here:
            found += self._cluster(job)
        return [*found, *[one async for one in self._approvals(job)]]

    def _folder(self, job: Job) -> Iterator[str]:
        folder, id = Path(folder_of(self._context, job)), job.id
        if job.spec.folder and not folder.is_dir():
            yield f"its folder {folder} is gone (`hermes task edit {id} --folder FOLDER`)"
        elif GIT.search(job.spec.prompt) and not _in_repository(folder):
            yield (
                f"the prompt speaks of Git, but {folder} is in no Git repository "
                f"(`hermes task edit {id} --folder FOLDER` moves the job into one)"
            )

    def _model(self, job: Job) -> Iterator[str]:
        try:
            self._completions.full_name(job.spec.model)
        except HermesError as error:
            yield f"no model would answer: {error.message} ({error.hint})"

    def _cluster(self, job: Job) -> Iterator[str]:
        if not CLUSTER.search(job.spec.prompt):
            return
        from hermes_agent.tools.sources.cluster.credentials import ACCOUNT, kubeconfigs

        environ, keep = self._context.environ, self._context.settings.terminal.keep_environment
        if shutil.which("kubectl", path=environ.get("PATH")) is None:
            yield "the prompt speaks of a cluster, but kubectl is not installed (install it)"
            return
        named = environ.get("KUBECONFIG", "")
        seen = named if "KUBECONFIG" in keep else ""
        if kubeconfigs(seen, {"HOME": environ.get("HOME", "")}):
            return
        if seen:
            yield f"KUBECONFIG names no file: {seen} (set it to one)"
        elif not (ACCOUNT / "token").exists():
            way_out = (
                "`hermes config set terminal.keep_environment '[KUBECONFIG]'` lets commands see it"
                if named
                else "put one there, or set KUBECONFIG and name it in terminal.keep_environment"
            )
            yield f"kubectl would find no cluster: ~/.kube/config does not exist ({way_out})"

    async def _approvals(self, job: Job) -> AsyncIterator[str]:
        """Commands that the prompt names or implies, and that its policy does not simply allow."""
        prompt, asked = job.spec.prompt, [chat.target for chat in self._notifier.asked(job)]
        path = self._context.environ.get("PATH")
        commands = [quoted for quoted in QUOTED.findall(prompt) if _is_command(quoted, path)]
        commands += [one for topic, some in TOPICS if topic.search(prompt) for one in some]
        policy = job.spec.policy or self._context.settings.policy
        for command in dict.fromkeys(commands):
            verdict = await self._scripts().verdict(job, command)
            if verdict.action == "allow":
                continue
            if verdict.action == "deny":
                what = "is refused"
            elif asked:
                what = f"waits for approval in {', '.join(asked)}"
            else:
                what = "needs approval, and there is no chat in which to ask, so it is refused"
            yield (
                f"under the policy {policy}, `{command}` {what}: {verdict.reason} "
                "(allow it by a rule in policies/, or choose another profile with --policy)"
            )


def _is_command(quoted: str, path: str | None) -> bool:
    """Whether quoted text begins with a program of this machine; others are names and values."""
    words = quoted.split()
    return len(words) > 1 and shutil.which(words[0], path=path) is not None


def _in_repository(folder: Path) -> bool:
    return any((one / ".git").exists() for one in (folder, *folder.parents))
