-- A module that does not end.
while true do end
