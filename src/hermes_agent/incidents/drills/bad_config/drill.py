"""A deployment wrote a site's configuration anew: it cannot be read, asks the wrong port, lets
nobody in, or names a file that is not there. The one before was put aside."""

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.incidents.drills import tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.world import File, Truth, World


class Plan(tiers.Pair, frozen=True, kw_only=True):
    aside: str
    """Where deployments put what was there before."""
    wrong_port: int
    release: str

    @property
    def site(self) -> str:
        return tiers.site_file(self.front)

    @property
    def former(self) -> str:
        return f"{self.aside}/{self.front}.conf.{self.release}"


def plan(pick: Pick, variant: str) -> Plan:
    fields = tiers.pair(pick, variant)
    return Plan(
        aside=pick.choice(("/var/backups/nginx", "/etc/nginx/backup", "/srv/deploy/old")),
        wrong_port=next(p for p in pick.ports(9) if p not in fields.values()),
        release=f"r{pick.size(100, 900)}",
        **fields,
    )


def _site(plan: Plan, port: int, upstream: int) -> str:
    return f"""server {{
    listen 127.0.0.1:{port};
    server_name {plan.front}.local;

    location / {{
        proxy_pass http://127.0.0.1:{upstream};
        proxy_set_header Host $host;
    }}
}}
"""


def _deployed(plan: Plan) -> str:
    """What the deployment wrote."""
    text = _site(plan, plan.front_port, plan.store_port)
    match plan.variant:
        case "syntax":
            return text.replace("$host;", "$host")
        case "upstream":
            return text.replace(f":{plan.store_port};", f":{plan.wrong_port};")
        case "closed":
            return text.replace("location / {", "location / {\n        deny all;")
        case _:
            extra = f"include /etc/nginx/snippets/{plan.front}-headers.conf;"
            return text.replace("$host;", f"$host;\n        {extra}")


def world(plan: Plan) -> World:
    sites = {
        plan.front: _site(plan, plan.front_port, plan.store_port),
        plan.beside: _site(plan, plan.beside_port, plan.store_port),
    }
    return tiers.joined(
        [
            tiers.items(plan.store, plan.store_port, {}),
            tiers.nginx(sites, [plan.store], plan.front_port),
        ],
        files={
            **tiers.kept_files(plan),
            plan.former: File(sites[plan.front], age=tiers.MONTH),
            f"{plan.aside}/{plan.beside}.conf.r7": File("server { listen 9; }\n", age=9e6),
        },
        hostname=plan.host,
        setup=[
            *tiers.old_lines(
                "/var/log/nginx/error.log",
                {1800: "[error] 41#41: *7 connect() failed (111: Connection refused)"},
            ),
            *tiers.old_lines("/var/log/deploy.log", {1740: f"{plan.beside} deployed"}),
        ],
    )


def inject(box: Box, plan: Plan) -> None:
    box.write(plan.site, _deployed(plan))
    box.run(
        f"echo \"$(date '+%F %T') {plan.front} deployed, nginx restarted\" >> /var/log/deploy.log"
    )
    box.run("supervisorctl restart nginx", check=False)
    tiers.until_broken(box, check(plan))


def check(plan: Plan) -> WatchedCheck:
    return tiers.answers(plan.front, plan.front_port)


def healthy(probe: Probe, plan: Plan) -> list[str]:
    said = probe.keeps(plan.front_port)
    return [said] if said else []


def before(probe: Probe, plan: Plan) -> dict[str, str]:
    paths = (tiers.configured(plan.store), tiers.site_file(plan.beside), "/etc/nginx/nginx.conf")
    return {path: probe.sha256(path) for path in paths}


def harm(probe: Probe, plan: Plan, before: dict[str, str]) -> list[str]:
    wrong = [*tiers.lost(probe, plan), *tiers.changed(probe, before)]
    if not any(process.name == "nginx" for process in probe.processes()):
        wrong.append("nginx is gone")
    return wrong


def truth(plan: Plan) -> Truth:
    evidence = {
        "syntax": r"unexpected|invalid number of arguments|emerg|invalid parameter",
        "upstream": rf"{plan.wrong_port}",
        "closed": r"deny all|forbidden by rule|403",
        "lost-include": r"snippets/|No such file",
    }
    return Truth(("nginx", plan.front), ("bad-config",), plan.site, evidence[plan.variant])


def reference(plan: Plan) -> list[str]:
    return [f"cp {plan.former} {plan.site}", "nginx -tq", "supervisorctl restart nginx"]


def wrong(plan: Plan) -> dict[str, list[str]]:
    return {
        "restarting": [f"supervisorctl restart nginx {plan.store} || true"],
        "without the site": [f"rm {plan.site}", "supervisorctl restart nginx"],
    }
