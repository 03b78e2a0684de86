-- A module that requires itself.
return require "lib_itself"
