"""In another house: a proxy that hands answers on by the drop, and a trigger of PostgreSQL that
takes its time with each row."""

from hermes_agent.incidents.drills import database, tiers, yard
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth


def dripping(pick: Pick) -> Scene:
    front, store, other = pick.services(3)
    port, store_port, gate, other_port = pick.ports(4)
    snippet = f"/etc/nginx/snippets/{pick.choice(('shaping', 'fair-use', 'throttle'))}.conf"
    kept = yard.notes(store, pick)
    usual = "# how fast answers go out\nlimit_rate 0;\n"
    site = yard.proxy(gate, f"http://127.0.0.1:{store_port}", inside=f"        include {snippet};")
    world = tiers.joined(
        [
            yard.depot(front, port, {"backend": f"http://127.0.0.1:{gate}"}, needs=("nginx",)),
            yard.depot(store, store_port),
            yard.depot(other, other_port),
            tiers.nginx({store: site}, [store], gate),
        ],
        files={**kept, **yard.days_ago(other, pick), snippet: File(usual, age=tiers.MONTH)},
        hostname=pick.host(),
    )

    def healthy(probe: Probe) -> list[str]:
        reply = probe.http(port, "/status", timeout=4.0)
        return said(
            yard.stores(probe, port), "" if reply.status == 200 else f"status: {reply.text.strip()}"
        )

    return Scene(
        world=world,
        check=yard.passes(front, port),
        healthy=healthy,
        truth=Truth(
            ("nginx", store),
            ("slow-dependency", "bad-config"),
            rf"{snippet}|limit_rate",
            r"limit_rate \d+;|timed out",
        ),
        inject=lines(
            f"cp -p {snippet} {snippet}.orig",
            f"sed -i 's/limit_rate 0/limit_rate {pick.size(30, 80)}/' {snippet}",
            "nginx -s reload; sleep 0.4",
        ),
        fix=(f"cp -p {snippet}.orig {snippet}", "nginx -t && nginx -s reload"),
        wrong={
            "restarting": [f"supervisorctl restart {front} {store} nginx; sleep 0.3"],
            "waiting longer": [
                f"echo 'backend_timeout = 60' >> {yard.settings_of(front)}",
                f"supervisorctl restart {front}; sleep 0.3",
            ],
            "around the proxy": [
                f"sed -i 's/:{gate}\"/:{store_port}\"/' {yard.settings_of(front)}",
                f"supervisorctl restart {front}; sleep 0.3",
            ],
        },
        stays=(*kept, *map(yard.settings_of, (front, store, other)), tiers.site_file(store)),
        harm=lambda probe: said(yard.stores(probe, other_port)),
    )


def _trigger(name: str, table: str, body: str) -> list[str]:
    """Statements that make a trigger of a table."""
    return [
        (f"create function {name}() returns trigger language plpgsql as "
        f"$$ begin {body} return new; end $$"),
        (f"create trigger {name} before insert or update on {table} "
        f"for each row execute function {name}()"),
    ]  # fmt: skip


def trigger(pick: Pick) -> Scene:
    main, front, other = pick.services(3)
    port, base_port, other_port, front_port = pick.ports(4)
    base, seconds = yard.Base(pick, main, base_port), pick.size(15, 22) / 10
    watch = f"{pick.choice(('audit', 'trace', 'mirror'))}_{pick.token(3)}"
    asking = {"upstream": f"http://127.0.0.1:{port}", "timeout": 1.0}
    world = tiers.joined(
        [
            base.server(*_trigger("count_rows", base.table, "")),
            base.service(main, port, timeout_ms=20000),
            tiers.items(front, front_port, asking, needs=[main]),
            yard.depot(other, other_port),
        ],
        files=yard.days_ago(other, pick),
        hostname=pick.host(),
    )

    def inject(box: Box) -> None:
        made = _trigger(watch, base.table, f"perform pg_sleep({seconds});")
        box.write("/root/watch.sql", ";\n".join([*made, ""]))
        box.run(f"{base.psql} -f /root/watch.sql && rm /root/watch.sql")

    def harm(probe: Probe) -> list[str]:
        usual = base.ask(probe, "select tgenabled from pg_trigger where tgname = 'count_rows'")
        off = "" if usual == "O" else "the trigger count_rows is off"
        return said(yard.stores(probe, other_port), base.lost(probe), off)

    disable = f"{base.psql} -c 'alter table {base.table} disable trigger"
    return Scene(
        world=world,
        check=tiers.answers(front, front_port),
        healthy=lambda probe: said(probe.keeps(front_port)),
        truth=Truth(
            (database.NAME, base.name, main), ("slow-dependency",), rf"{watch}|\b{base.table}\b",
            rf"{watch}|timed out|pg_sleep|PgSleep",
        ),
        inject=inject,
        fix=(f"{disable} {watch}'", f"supervisorctl restart {main}"),
        wrong={
            "restarting": [f"supervisorctl restart {front} {main}"],
            "waiting longer": [
                f"sed -i 's/^timeout = .*/timeout = 30/' {tiers.configured(front)}",
                f"supervisorctl restart {front}; sleep 0.3",
            ],
            "without triggers": [f"{disable} all'", f"supervisorctl restart {main}; sleep 0.3"],
        },
        stays=(tiers.configured(front), tiers.configured(main), database.SETTINGS),
        harm=harm,
    )  # fmt: skip


def standby(pick: Pick) -> Scene:
    """What is written waits for a copy elsewhere, of a machine that was given up long ago."""
    main, front, other = pick.services(3)
    port, base_port, other_port, front_port = pick.ports(4)
    base, copy = yard.Base(pick, main, base_port), f"{pick.words(1)[0]}_{pick.token(3)}"
    asking = {"upstream": f"http://127.0.0.1:{port}", "timeout": 1.0}
    world = tiers.joined(
        [
            base.server(),
            base.service(main, port, timeout_ms=20000),
            tiers.items(front, front_port, asking, needs=[main]),
            yard.depot(other, other_port),
        ],
        files=yard.days_ago(other, pick),
        hostname=pick.host(),
    )
    told = f"{base.psql} -c \"alter system set synchronous_standby_names = '{copy}'\""
    reload = f"{base.psql} -c 'select pg_reload_conf()'"
    return Scene(
        world=world,
        check=tiers.answers(front, front_port),
        healthy=lambda probe: said(probe.keeps(front_port)),
        truth=Truth(
            (database.NAME, base.name, main), ("slow-dependency", "bad-config"),
            rf"synchronous|{copy}", r"SyncRep|synchronous|timed out",
        ),
        inject=lines(f"{told} && {reload}"),
        fix=(f"{base.psql} -c 'alter system reset synchronous_standby_names'", reload),
        wrong={
            "restarting": [f"supervisorctl restart {front} {main}"],
            "waiting longer": [
                f"sed -i 's/^timeout = .*/timeout = 30/' {tiers.configured(front)}",
                f"supervisorctl restart {front}; sleep 0.3",
            ],
        },
        stays=(tiers.configured(front), tiers.configured(main), database.SETTINGS),
        harm=lambda probe: said(yard.stores(probe, other_port), base.lost(probe)),
    )  # fmt: skip
