"""What people say: corrections, praise and wishes to remember, and what only looks like them."""

import pytest

from hermes_agent.learning.review.cues import READ_CHARS, corrects, praises, wants_remembered

CORRECTIONS = [
    "No, use port 8080.",
    "no that's the staging host",
    "Nope, wrong file",
    "That's wrong, the service is called billing-api",
    "That is not what I asked for",
    "that's not right",
    "I said the other branch",
    "I meant the production database, not staging",
    "Not main but develop",
    "not like that",
    "Stop!",
    "Stop, you are deleting my data",
    "stop doing that",
    "Undo that",
    "please revert your last change",
    "Put it back the way it was",
    "Always run the tests before you commit",
    "Never push to main",
    "Please never use sudo here",
    "From now on write the reports in German",
    "Don't touch the config file",
    "do not restart the database",
    "You forgot the migration",
    "You should have asked first",
    "It still fails with the same error",
    "That didn't work",
    "it doesn't compile",
    "Hmm, no, take the second one",
    "Use tabs, not spaces",
    "I asked for JSON and not for YAML",
    "Actually, that's the wrong cluster",
    "thanks, but that is not the right file",
    "Wrong folder, it belongs in /srv",
    "> I restarted web-1\nNo, web-2",
    "```\nls\n```\nThat's wrong",
    "wait, that's production",
    "You've misunderstood the task",
    "I told you to keep the logs",
    "Nein, das ist der falsche Server",
    "Nein. Nimm den anderen",
    "Nicht den Port 80, sondern 443",
    "Das stimmt nicht",
    "Mach das bitte rückgängig",
    "Ich hatte doch Python 3.12 gesagt",
    "Immer erst ein Backup machen",
    "Non, c'est l'autre fichier",
    "Ce n'est pas ce que j'ai demandé",
    "No, eso no es correcto",
    "Não, use o outro servidor",
    "No, intendevo l'altro",
    "Нет, не этот файл",
    "Неправильно, порт 5433",
    "不对，应该用 8080 端口",  # noqa: RUF001
    "错了，是另一个文件",  # noqa: RUF001
    "違います、本番のほうです",
    "아니요, 다른 파일입니다",
    "That's not the host I meant",
    "wrong again",
    "This is incorrect",
    "you're wrong about that",
    "It should be 5432, not 5433",
    "that was supposed to be a dry run",
    "Ich wollte es auf Deutsch, nicht Englisch",
    "eso está mal",
    "Please use British spelling from now on",
    "undo",
    "same error again",
    "Please stop, this is production!",
    "I asked you to leave the tests alone",
    "That's not quite it",
    "Nope.",
    "Não é isso",
]

NO_CORRECTIONS = [
    "No problem, take your time",
    "no worries",
    "No errors in the log, what next?",
    "No, thanks",
    "No need to restart it",
    "Stop the nginx service on web-3",
    "stop all containers that are older than a day",
    "Wait for the build and then deploy",
    "Undo the last three migrations on the test database",
    "Revert commit 4f2a1c and push",
    "Why does it never finish?",
    "The login page doesn't work since the last release",
    "Find out why the job always fails at midnight",
    "Is that wrong?",
    "Did you forget anything?",
    "What is the wrong way to do this?",
    "Write a function that says whether a date is wrong",
    'The log says "wrong password for user admin"',
    "```\nERROR: no, that is not a valid option\n```\nwhat does this mean?",
    "> no, use the other one\nCan you summarise this thread?",
    "Show me the notes on billing",
    "Note the disk usage of each host",
    "Could you check the certificate of example.org?",
    "I don't know the version",
    "don't worry about the tests",
    "Never mind",
    "Thanks, that works",
    "Perfect!",
    "Yes, go on",
    "ok",
    "Now do the same for the other two hosts",
    "Rename the table to not_found",
    "Nothing has changed in the config since May",
    "Compare the two approaches and tell me which is better",
    "I have always used Debian, which package do I need here?",
    "Notify me when it is done",
    "Noch eine Frage: welche Version läuft dort?",
    "Nein danke",
    "Wie stoppe ich den Dienst?",
    "Normalerweise dauert das zwei Minuten",
    "Non merci",
    "Peux-tu lister les fichiers ?",
    "¿No funciona el servidor?",
    "Noticias del servidor, por favor",
    "Нетривиальная задача: собрать отчёт",
    "帮我看看日志",
    "不错",
    "サーバーの状態を確認してください",
    "Delete the wrong entries from hosts.txt",
    "Explain the difference between stop and kill",
    "No such file or directory appears when I run it, why?",
    "Stop words should be removed from the text",
    "Do not disturb mode: how is it turned on?",
    "I said hello to the team, now draft the email",
    "Nope.txt should be renamed",
    "no idea what happened here, can you check the logs?",
    "Make sure it never happens again",
    "Add no-cache headers",
    "Non-blocking IO: explain",
    "Set the retention to 14 days, not more than that",
    "Which pods are not ready?",
    "In future versions, will this flag exist?",
]

PRAISE = [
    "Thanks!",
    "thank you very much",
    "Perfect",
    "Great, now do the same for staging",
    "That works",
    "it works now",
    "works",
    "Looks good",
    "Yes, exactly what I wanted",
    "ok thanks",
    "Danke dir",
    "Jetzt geht es",
    "Merci beaucoup",
    "Gracias",
    "Спасибо",
    "谢谢",
    "ありがとう",
]

NO_PRAISE = [
    "Thanks in advance",
    "thanks, but that is wrong",
    "Does it work?",
    "Great Britain's time zone, please",
    "It works on my machine, find out why not on the server",
    "Check that everything works after the upgrade",
    "Write a thank-you letter",
    "Is this perfect?",
    "The old one worked better than this, undo that",
    "List the working set of each process",
    "Super slow queries: find them",
]

TO_REMEMBER = [
    "Remember that the backups run at 02:00",
    "please remember to use the blue cluster",
    "Remember: never on Fridays",
    "Keep in mind that web-3 has only 2 GB",
    "For future reference, the API key is rotated monthly",
    "Don't forget that I am in Berlin",
    "Make a note: the switch is called core-1",
    "Add this to your memory: I prefer tabs",
    "Merk dir, dass ich abends nicht gestört werden will",
    "Souviens-toi que le port est 5433",
    "Recuerda que uso zsh",
    "记住我用的是 Debian",
    "覚えておいてください、私は東京にいます",
    "Запомни, прод это web-1",
]

NOT_TO_REMEMBER = [
    "Do you remember the name of the host?",
    "I don't remember the password policy",
    "Remember when we moved the database?",
    "What does 'remember me' do in this form?",
    "Add a remember-me checkbox to the login page",
    "How much memory does it use?",
    "Note the differences between the two files",
    "Erinnerst du dich an den Host?",
    "Save the file as report.md",
    "Store the result in /tmp/out",
]


@pytest.mark.parametrize("text", CORRECTIONS)
def test_a_correction_is_noticed(text: str) -> None:
    assert corrects(text)


@pytest.mark.parametrize("text", NO_CORRECTIONS)
def test_what_only_looks_like_a_correction_is_none(text: str) -> None:
    assert corrects(text) == ""


def test_the_table_is_large_enough_to_mean_something() -> None:
    assert len(set(CORRECTIONS)) >= 40
    assert len(set(NO_CORRECTIONS)) >= 40


@pytest.mark.parametrize("text", PRAISE)
def test_praise_is_noticed(text: str) -> None:
    assert praises(text)


@pytest.mark.parametrize("text", NO_PRAISE)
def test_what_only_looks_like_praise_is_none(text: str) -> None:
    assert praises(text) == ""


@pytest.mark.parametrize("text", TO_REMEMBER)
def test_a_wish_to_remember_is_noticed(text: str) -> None:
    assert wants_remembered(text)


@pytest.mark.parametrize("text", NOT_TO_REMEMBER)
def test_what_only_looks_like_a_wish_to_remember_is_none(text: str) -> None:
    assert wants_remembered(text) == ""


def test_what_stands_far_down_in_a_long_message_is_not_read() -> None:
    assert corrects("Here is the log of the night. " * 40 + "You forgot the migration.") == ""
    assert len("Here is the log of the night. " * 40) > READ_CHARS
