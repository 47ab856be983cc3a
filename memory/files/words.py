"""What the words of a text are made of: the scripts that know no blanks, and the words that say nothing. Pure."""

CJK = (
    "\u1100-\u11ff\u3005\u3007\u3021-\u3029\u3031-\u3035\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7fb"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)

_ENGLISH_STOP_WORDS = """
a about above after again against all also am an and any are as at be because been before being below between
both but by can could did do does doing don don't down during each few for from further had has have having he
her here hers herself him himself his how i i'm if in into is isn't it it's its itself just let me more most my
myself no nor not now of off on once only or other our ours ourselves out over own please same shall she should
so some such than that that's the their theirs them themselves then there these they this those through to too
under until up us very was we were what what's when where which while who whom why will with would you your yours
yourself yourselves
"""
_CHINESE_STOP_WORDS = """
的 了 是 在 和 与 或 吗 呢 吧 啊 也 都 就 把 被 让 给 对 从 到 我 你 他 她 它 这 那 哪 谁 请
什么 怎么 怎样 如何 为何 哪个 哪些 哪里 多少 是否 可以 我们 你们 他们 这个 那个 这些 那些 一个 一下 以及 或者 还是
"""
ENGLISH_STOP_WORDS = frozenset(_ENGLISH_STOP_WORDS.split())
STOP_WORDS = ENGLISH_STOP_WORDS | frozenset(_CHINESE_STOP_WORDS.split())
