-- streamlua.test belongs to a later stage: known, but refused by name.
require("streamlua.check").later(require("streamlua.check").where(), "streamlua.test is")
