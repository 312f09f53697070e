"""LaTeX commands by what becomes of them in the plain dialect of `normalise`."""

FUNCTIONS = frozenset(
    "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln exp lg max min sup inf gcd lcm mod det "
    "sqrt frac pi arg deg dim lim floor ceil sgn rank tr cis binom infty infinity alpha beta gamma delta theta "
    "lambda sigma omega phi".split()
)
# Synonyms of one command. Order matters only where one name begins another, and \b-like ends prevent that.
_SYNONYMS = {
    r"\frac": r"\dfrac \tfrac \cfrac", r"\binom": r"\dbinom \tbinom", r"\le": r"\leq \leqslant \leqq",
    r"\ge": r"\geq \geqslant \geqq", r"\ne": r"\neq", r"\emptyset": r"\varnothing", r"\to": r"\rightarrow",
    r"\setminus": r"\backslash \smallsetminus", r"\ldots": r"\dots \cdots \dotsc \dotsb",
    r"\lor": r"\vee", r"\land": r"\wedge", r"\times": r"\ast", r"\epsilon": r"\varepsilon", r"\phi": r"\varphi",
    r"\theta": r"\vartheta", r"\degree": r"\degrees", r"\overline": r"\bar", r"\arcsin": r"\asin",
    r"\arccos": r"\acos", r"\arctan": r"\atan",
}  # fmt: skip
COMMAND_FOR = {synonym: name for name, names in _SYNONYMS.items() for synonym in names.split()}
REPLACED = {
    r"\lg": r"\log_{10} ", r"\lt": "<", r"\gt": ">", r"\colon": ":", r"\ratio": ":", r"\lbrace": r"\{", r"\rbrace": r"\}",
    r"\lbrack": "[", r"\rbrack": "]", r"\lvert": "|", r"\rvert": "|", r"\vert": "|", r"\mid": "|",
    r"\prime": "'", r"\euro": r"\text{€}", r"\pounds": r"\text{£}", r"\yen": r"\text{¥}",
    r"\textdollar": r"\$", r"\percent": r"\%", r"\textdegree": r"^{\circ}",
    r"\R": r"\mathbb{R}", r"\Z": r"\mathbb{Z}", r"\N": r"\mathbb{N}", r"\Q": r"\mathbb{Q}",
}  # fmt: skip
_SPACES = r"\, \! \; \: \> \quad \qquad \enspace \thinspace \hfill \hfil \newline \linebreak \nobreakspace"
_LAYOUT = (
    r"\displaystyle \textstyle \scriptstyle \scriptscriptstyle \limits \nolimits \left \right \middle "
    r"\mleft \mright \big \Big \bigg \Bigg \bigl \bigr \Bigl \Bigr \biggl \biggr \Biggl \Biggr \rm \bf \it "
    r"\normalsize \large \Large \centering \noindent \par \nonumber \notag \strut \mathstrut \ensuremath"
)
DROPPED = {**dict.fromkeys(_SPACES.split(), " "), **dict.fromkeys(_LAYOUT.split(), "")}
DROPPED_WITH_ARGUMENT = frozenset(
    r"\phantom \hphantom \vphantom \cancel \bcancel \xcancel \sout \st \tag \label \hspace \vspace \color".split()
)
UNWRAPPED = frozenset(
    r"\boxed \fbox \underline \mathstrut \mathord \mathop \mathbin \mathrel \ensuremath \mathcal \mathscr \vec".split()
)
TEXT_COMMANDS = frozenset(
    r"\text \textbf \textit \textrm \texttt \textsf \textsc \textnormal \textup \mbox \hbox \emph \mathrm \mathbf "
    r"\mathit \mathsf \mathtt \mathnormal \boldsymbol \bm \pmb \operatorname".split()
)
NUM_ARGUMENTS = {
    r"\frac": 2,
    r"\binom": 2,
    r"\sqrt": 1,
    r"\overline": 1,
    r"\dot": 1,
    r"\ddot": 1,
    r"\hat": 1,
}

WITH_NAME = frozenset((r"\begin", r"\end", r"\mathbb"))  # their argument is a name and stays as it is
