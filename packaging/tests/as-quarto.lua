-- Runs shortcodes the way Quarto does, for Pandoc alone: finds {{< name key="value" >}} in a paragraph, calls the handler of
-- the extension, puts its blocks in the paragraph's place. WHATFITS_EXTENSION names the Lua file.
local asked = {}
quarto = {
  doc = {
    is_format = function(name) return name == "html:js" and FORMAT:match("html") ~= nil end,
    add_html_dependency = function(dependency) asked[dependency.name] = dependency end,
  },
}
local handlers = dofile(os.getenv("WHATFITS_EXTENSION"))

local function shortcode(text)
  local name, rest = text:match("^{{<%s*(%S+)%s*(.-)%s*>}}$")
  if not name or not handlers[name] then return nil end
  local kwargs = {}
  for key, value in rest:gmatch('([%w%.%-]+)="([^"]*)"') do kwargs[key] = pandoc.Inlines({ pandoc.Str(value) }) end
  return handlers[name]({}, kwargs, {}, {}, "block")
end

function CodeBlock(block)  -- the test's post has each shortcode in a code block of class shortcode, so that no quote is made smart
  if block.classes:includes("shortcode") then return shortcode((block.text:gsub("%s+", " "))) end
end

function Pandoc(doc)
  for _, dependency in pairs(asked) do
    for _, script in ipairs(dependency.scripts) do
      doc.blocks:insert(1, pandoc.RawBlock("html", '<script src="' .. script.path .. '" defer="' .. script.attribs.defer .. '"></script>'))
    end
  end
  return doc
end

return { { CodeBlock = CodeBlock }, { Pandoc = Pandoc } }
