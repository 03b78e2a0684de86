-- A module with a fault.
local x = = 1
