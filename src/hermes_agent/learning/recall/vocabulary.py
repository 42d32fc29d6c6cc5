"""Words that say little, and words that say the same."""

EMPTY = """
a about after again all also am an and any are as at be because been before being both but by can
cannot could did do does doing done down during each every few for from further had has have
having he her here him his how i if in into is it its itself just like me more most much my myself
no nor not now of off on once one only or other our out over own same she should since so some
such than that the their them then there these they this those through to too under until up upon
us very was we were what when where which while who whom why will with within without would yes
you your im ive dont doesnt didnt cant isnt wont thats whats lets still yet already always never
ever another anything something nothing everything someone somebody nobody anybody many first last
next aber alle als auch auf aus bei beim bin bis da dann das dass dein dem den der des die dies
diese dieser dieses doch du durch ein eine einem einen einer eines er es etwas euch euer für fur
gegen haben hat hatte hier ich ihr ist ja jede jeder jetzt kann kein keine man mein mich mir mit
nach nicht noch nur ob oder ohne schon sein sich sie sind soll um und uns unser unter vom von vor
war warum weil wenn wer werden wie wieder wir wird wo wurde zu zum zur seit mal au aux avec ce ces
cette dans de elle en est et il je la le les leur lui ma mais mes moi mon ne nos notre nous ou par
pas pour qu que qui sa se ses son sont sur ta tes toi ton tu un une vos votre vous quel quelle al
como con cual del el ella esta este esto hay las lo los mas mi muy o para pero por porque ser si
sin sobre su sus te una y yo ao com dos e ela ele em eu foi isso meu na nao nas os pela pelo
quando sao seu sua tem uma voce che chi ci di dove gli ho io lei loro nel non per piu quello
questo sono sul tra aan dat deze dit een het hij hoe ik kan maar meer met mij naar niet nog om ook
op tot uit van voor wat wel werd wij zijn zo
怎么 什么 一下 帮我 请问 我们 你们 他们 这个 那个 可以 是不 不是 没有 为什 么办 怎样 如何 是否
一直 现在 已经 还是 好的 谢谢 继续 很好
please thanks thank thx hello hi hey good morning afternoon evening bye ok okay yeah yep sure
great nice well go ahead continue proceed stop help want need needs let tell show give get got say
said know think see look try take make makes making made come came keep keeps really maybe perhaps
right way thing things lot bit kind sort wait bitte danke hallo gut guten morgen tag gerne mach
mache machen weiter zeig hilf gib sag merci bonjour salut oui gracias hola vale obrigado grazie
ciao bedankt
"""
"""What every message has: it says nothing about what the message is about. English, German, French,
Spanish, Portuguese, Italian, Dutch, and Chinese in pairs of characters; then what people say to an
agent whatever they want of it."""

COMMON = """
server service system host machine computer error problem trouble issue fail failure fix repair
check find run start restart work set setup put add change new old use user file folder log data
time day week month year hour minute second today yesterday night list page application code test
name number version update create write read open close small large big long short slow fast high
low full free best better wrong break broken thing part place line text word value type case
project program script command task job question answer example explain describe compare
difference implement build configure install generate convert count rename function class variable
method object return print format design plan people person company team office customer home send
receive call request response connect reach move replace remove delete order simple three two
"""
"""What is said in this trade of almost everything."""

SAME = (
    "kubernetes k8s",
    "certificate cert certs",
    "database db databases",
    "postgres postgresql pg",
    "configuration config configure",
    "repository repo",
    "authentication auth authenticate",
    "memory ram",
    "tls ssl",
    "production prod",
    "application app",
    "email mail mails emails",
    "message msg",
    "password passwd",
    "directory folder dir",
    "environment env",
    "dependency dependencies deps",
    "vulnerability vulnerabilities cve cves",
    "javascript js",
    "garbage gc",
    "requests req",
)
"""Words that people write in two ways; the first stands for all."""
