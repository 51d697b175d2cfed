"""Values that are code, numbers or names of machines."""

import string

from examples.demo_model.strings import word
from examples.demo_model.words import Words


def slug(words: Words) -> str:
    """Words joined as in names of branches."""
    joint = words.random.choice("--_")
    parts = [words.pick("noun") for _ in range(words.random.choice((1, 2, 2, 3)))]
    prefix = words.random.choice(("", "", "", "feature/", "fix/"))
    return prefix + joint.join(parts)


def path(words: Words) -> str:
    """The path of a file or folder."""
    parts = [word(words) for _ in range(words.random.choice((1, 1, 2, 2, 3)))]
    end = words.random.choice(("", ".txt", ".md", ".py", ".csv", ".json", ".pdf", ".log", ".docx"))
    lead = words.random.choice(("", "", "/", "~/", "./", "/home/"))
    return lead + "/".join(parts) + end


def imagefile(words: Words) -> str:
    """The name of an image."""
    number = words.random.choice(("", f"_{words.random.randint(1, 99)}"))
    return f"{word(words)}{number}.{words.random.choice(('jpg', 'png', 'gif', 'webp'))}"


def url(words: Words) -> str:
    """An address that nobody owns."""
    start = words.random.choice(("https://", "http://", "www.", ""))
    end = words.random.choice(("", f"/{words.pick('noun')}", f"/{slug(words)}"))
    return f"{start}{word(words)}.{words.random.choice(('test', 'example', 'example.com'))}{end}"


def hostname(words: Words) -> str:
    """A machine."""
    noun, number = words.pick("noun"), words.random.randint(1, 40)
    address = ".".join(str(words.random.randint(1, 254)) for _ in range(4))
    forms = (f"{noun}-{number}", f"{noun}{number}", f"{noun}.example.com", address)
    return words.random.choice(forms)


def phone(words: Words) -> str:
    """A telephone number."""
    digits = [str(words.random.randint(100, 999)) for _ in range(3)]
    form = words.random.choice(("{}-{}-{}", "{} {} {}", "+49 {} {}{}", "0{} {}{}", "({}) {}-{}"))
    return form.format(*digits)


def code(words: Words) -> str:
    """A number of an order, with letters."""
    letters = "".join(words.random.choice(string.ascii_uppercase) for _ in range(2))
    number = words.random.randint(100, 99999)
    return words.random.choice((f"{letters}{number}", f"{letters}-{number}", f"{number}", "#A17"))


def token(words: Words) -> str:
    """Letters and digits without sense."""
    letters = string.ascii_lowercase + string.digits
    length = words.random.randint(4, 9)
    if words.random.random() < 0.5:
        return words.scramble() + words.scramble()
    return "".join(words.random.choice(letters) for _ in range(length))


def plate(words: Words) -> str:
    """A number plate."""
    letters = "".join(words.random.choice(string.ascii_uppercase) for _ in range(4))
    return f"{letters[:2]}-{letters[2:]} {words.random.randint(10, 9999)}"


def formula(words: Words) -> str:
    """Something to calculate."""
    a, b, c = (words.random.randint(1, 400) for _ in range(3))
    one, two = (words.random.choice("+-*/") for _ in range(2))
    forms = (f"{a} {one} {b}", f"{a}{one}{b}", f"{a} {one} {b} {two} {c}", f"({a} + {b}) {one} {c}")
    return words.random.choice((*forms, f"sqrt({a})", f"{a}^2"))


def sql(words: Words) -> str:
    """A query of a database."""
    table, column, number = words.pick("noun"), words.pick("noun"), words.random.randint(1, 90)
    where = words.random.choice((f" WHERE {column} > {number}", f" ORDER BY {column}", ""))
    return words.random.choice((f"SELECT * FROM {table}", f"SELECT {column} FROM {table}")) + where


def ticker(words: Words) -> str:
    """The symbol of a share."""
    return "".join(words.random.choice(string.ascii_uppercase) for _ in range(4))


def version(words: Words) -> str:
    """The number of a version."""
    r = words.random
    forms = f"{r.randint(0, 9)}.{r.randint(0, 30)}", f"v{r.randint(1, 9)}.{r.randint(0, 9)}.0"
    return r.choice((*forms, f"{r.randint(0, 9)}.{r.randint(0, 30)}.{r.randint(0, 9)}"))
